"""Codes told by their indices, where a vector would hold a one-hot for each of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Coded:
    """Codes, and numbers beside them."""

    index: Int[Tensor, "*rest K"]
    beside: Float[Tensor, "*rest D"]
    vocabulary: int

    def dense(self) -> Float[Tensor, "*rest E"]:
        """The same as one vector: the one-hots, one after the other, then the numbers."""
        hard = one_hots(self.index, self.vocabulary, self.beside.dtype)
        return torch.cat([rearrange(hard, "... k v -> ... (k v)"), self.beside], dim=-1)

    def __len__(self) -> int:
        """Rows of the first axis."""
        return len(self.index)

    def __getitem__(self, rows: slice) -> "Coded":
        """Some rows of the first axis."""
        return Coded(self.index[rows], self.beside[rows], self.vocabulary)


Feature = Tensor | Coded
"""What a behaviour reads of a state: numbers, or codes with numbers beside them."""


def one_hots(
    index: Int[Tensor, "*rest"], vocabulary: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*rest V"]:
    """A one where each index points, written without whole numbers in between."""
    blank = torch.zeros(*index.shape, vocabulary, dtype=dtype, device=index.device)
    return blank.scatter_(-1, index.unsqueeze(-1), 1.0)


def stack(features: Sequence[Feature]) -> Feature:
    """One after the other, along a new first axis."""
    coded = [each for each in features if isinstance(each, Coded)]
    if not coded:
        return torch.stack([each for each in features if isinstance(each, Tensor)])
    index, beside = ([getattr(each, name) for each in coded] for name in ("index", "beside"))
    return Coded(torch.stack(index), torch.stack(beside), coded[0].vocabulary)
