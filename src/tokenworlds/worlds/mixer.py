"""Codes and action of a step, brought together into one vector for the sequence model."""

from dataclasses import dataclass

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf


class Mixer(nn.Module, Component):
    """A linear map of the one-hot codes and the action, RMS norm, SiLU."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Mixer"]):
        """No choices: concatenation is a linear map."""

    def __init__(
        self, config: Config, *, tokens: int, vocabulary: int, actions: int, width: int
    ) -> None:
        super().__init__()
        # Kept row by row, so that looking codes up touches only the rows they name.
        self.codes = nn.Parameter(torch.empty(tokens * vocabulary, width))
        self.action = nn.Linear(actions, width)
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.vocabulary = vocabulary
        bound = (tokens * vocabulary + actions) ** -0.5
        nn.init.uniform_(self.codes, -bound, bound)

    def forward(
        self, sample: Float[Tensor, "*rest K V"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        """From one-hot samples, through which gradients reach the tokenizer."""
        return self._finish(rearrange(sample, "... k v -> ... (k v)") @ self.codes, action)

    def look_up(
        self, index: Int[Tensor, "*rest K"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        """The same from indices: a one-hot times a matrix is a sum of its rows."""
        offsets = torch.arange(index.shape[-1], device=index.device) * self.vocabulary
        flat, lead = pack([index + offsets], "* k")
        (mixed,) = unpack(functional.embedding_bag(flat, self.codes, mode="sum"), lead, "* d")
        return self._finish(mixed, action)

    def _finish(self, mixed: Tensor, action: Tensor) -> Tensor:
        return functional.silu(self.norm(mixed + self.action(action)))
