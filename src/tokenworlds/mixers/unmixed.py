"""Embeddings of codes and action left as they are (GIT-STORM, E.4.2: unmixed states)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.fast.tokens import map_codes, sum_rows


class Unmixed(nn.Module, Component):
    """A linear embedding of the codes in one half, one of the action in the other.

    To bring them together is left to the sequence model.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Unmixed"]):
        """No choices."""

    def __init__(
        self, config: Config, *, tokens: int, vocabulary: int, actions: int, width: int
    ) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.empty(tokens * vocabulary, width - width // 2))
        self.action = nn.Linear(actions, width // 2, bias=False)
        bound = (tokens * vocabulary) ** -0.5
        nn.init.uniform_(self.codes, -bound, bound)

    def forward(
        self, sample: Float[Tensor, "*rest K V"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        """From one-hot samples, through which gradients reach the tokenizer."""
        return torch.cat([map_codes(sample, self.codes), self.action(action)], -1)

    def look_up(
        self, index: Int[Tensor, "*rest K"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        """The same from indices."""
        return torch.cat([sum_rows(index, self.codes), self.action(action)], -1)
