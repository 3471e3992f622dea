"""Codes and action concatenated, then two linear layers (STORM; GIT-STORM, table 11)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.fast.tokens import map_codes, sum_rows


class Concatenation(nn.Module, Component):
    """Linear, layer norm, ReLU, linear, layer norm; the linear layers have no bias."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Concatenation"]):
        pass

    def __init__(
        self, config: Config, *, tokens: int, vocabulary: int, actions: int, width: int
    ) -> None:
        super().__init__()
        # One linear layer over the concatenation, stored in two parts.
        self.codes = nn.Parameter(torch.empty(tokens * vocabulary, width))
        self.action = nn.Linear(actions, width, bias=False)
        self.hidden_norm = nn.LayerNorm(width, eps=1e-5)
        self.output = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width, eps=1e-5)
        bound = (tokens * vocabulary + actions) ** -0.5
        for part in (self.codes, self.action.weight):
            nn.init.uniform_(part, -bound, bound)

    def forward(
        self, sample: Float[Tensor, "*rest K V"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        return self._finish(map_codes(sample, self.codes), action)

    def look_up(
        self, index: Int[Tensor, "*rest K"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        return self._finish(sum_rows(index, self.codes), action)

    def _finish(self, mixed: Tensor, action: Tensor) -> Tensor:
        hidden = functional.relu(self.hidden_norm(mixed + self.action(action)))
        result: Tensor = self.norm(self.output(hidden))
        return result
