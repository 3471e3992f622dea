"""Features: what a behaviour reads of a state, as numbers or as token indices beside numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TokenFeature:
    """Token indices and a vector. Networks sum rows of their weights instead of multiplying
    one-hots."""

    index: Int[Tensor, "*rest K"]
    vector: Float[Tensor, "*rest D"]
    vocabulary: int

    def to_dense(self) -> Float[Tensor, "*rest E"]:
        """One vector: the one-hots of all tokens, then the numbers."""
        hard = one_hots(self.index, self.vocabulary, self.vector.dtype)
        return torch.cat([rearrange(hard, "... k v -> ... (k v)"), self.vector], dim=-1)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: slice) -> "TokenFeature":
        return TokenFeature(self.index[rows], self.vector[rows], self.vocabulary)


Feature = Tensor | TokenFeature


def to_dense(feature: Feature) -> Tensor:
    return feature if isinstance(feature, Tensor) else feature.to_dense()


def one_hots(
    index: Int[Tensor, "*rest"], vocabulary: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*rest V"]:
    """One-hots in the given type; `functional.one_hot` would go through integers."""
    blank = torch.zeros(*index.shape, vocabulary, dtype=dtype, device=index.device)
    return blank.scatter_(-1, index.unsqueeze(-1), 1.0)


def stack(features: Sequence[Feature]) -> Feature:
    """Stack along a new first axis."""
    tokens = [each for each in features if isinstance(each, TokenFeature)]
    if not tokens:
        return torch.stack([each for each in features if isinstance(each, Tensor)])
    index = torch.stack([each.index for each in tokens])
    vector = torch.stack([each.vector for each in tokens])
    return TokenFeature(index, vector, tokens[0].vocabulary)
