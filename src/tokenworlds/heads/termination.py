"""Termination heads: whether a step terminated the episode. A time limit is no termination."""

from dataclasses import dataclass

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.blocks import Perceptron, Style
from tokenworlds.nets.distributions import Bernoulli
from tokenworlds.nets.readout import Readout


class MLPTermination(nn.Module, Component):
    """One logit from an MLP with norms, read from the state after the step."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["MLPTermination"]):
        hidden: tuple[int, ...] = (256,)
        style: Style = "silu"

    def __init__(self, config: Config, *, width: int) -> None:
        super().__init__()
        self.network = Perceptron(width, config.hidden, 1, config.style)

    def forward(self, feature: Float[Tensor, "*rest D"]) -> Bernoulli:
        return Bernoulli(rearrange(self.network(feature), "... 1 -> ..."))


class ReadoutTermination(nn.Module, Component):
    """The difference of two class logits, from one ReLU layer as wide as the feature (IRIS,
    Δ-IRIS)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["ReadoutTermination"]):
        pass

    def __init__(self, config: Config, *, width: int) -> None:
        super().__init__()
        self.network = Readout(width, 2)

    def forward(self, feature: Float[Tensor, "*rest D"]) -> Bernoulli:
        no, yes = self.network(feature).unbind(-1)
        return Bernoulli(yes - no)
