"""Codes and action through one linear layer (STEP-VQ; DRAMA)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.blocks import RMSNorm
from tokenworlds.nets.fast.tokens import map_codes, sum_rows


class Projection(nn.Module, Component):
    """A linear layer over one-hot codes and action, RMS norm, SiLU."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Projection"]):
        pass

    def __init__(
        self, config: Config, *, tokens: int, vocabulary: int, actions: int, width: int
    ) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.empty(tokens * vocabulary, width))
        self.action = nn.Linear(actions, width)
        self.norm = RMSNorm(width, eps=1e-5)
        bound = (tokens * vocabulary + actions) ** -0.5
        nn.init.uniform_(self.codes, -bound, bound)

    def forward(
        self, sample: Float[Tensor, "*rest K V"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        return self._finish(map_codes(sample, self.codes), action)

    def look_up(
        self, index: Int[Tensor, "*rest K"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        return self._finish(sum_rows(index, self.codes), action)

    def _finish(self, mixed: Tensor, action: Tensor) -> Tensor:
        return functional.silu(self.norm(mixed + self.action(action)))
