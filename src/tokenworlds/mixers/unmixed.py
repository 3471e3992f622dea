"""Embeddings of codes and action, concatenated (GIT-STORM, E.4.2: unmixed states)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.fast.tokens import map_codes, sum_rows


class Unmixed(nn.Module, Component):
    """Linear embeddings of the codes in one half and of the action in the other; combining them is
    left to the sequence model."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Unmixed"]):
        pass

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
        return torch.cat([map_codes(sample, self.codes), self.action(action)], -1)

    def look_up(
        self, index: Int[Tensor, "*rest K"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        return torch.cat([sum_rows(index, self.codes), self.action(action)], -1)
