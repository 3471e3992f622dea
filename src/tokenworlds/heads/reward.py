"""The reward of a step, as a two-hot distribution in symlog."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.blocks import Perceptron, Style, shrink_output
from tokenworlds.nets.distributions import TwoHot


class Reward(nn.Module, Component):
    """A small network that reads the state a step led to."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Reward"]):
        """Choices."""

        hidden: tuple[int, ...] = (256,)
        style: Style = "silu"
        bins: int = 255

    def __init__(self, config: Config, *, width: int) -> None:
        super().__init__()
        network = Perceptron(width, config.hidden, config.bins, config.style)
        self.network = shrink_output(network, 0.0)

    def forward(self, feature: Float[Tensor, "*rest D"]) -> TwoHot:
        """Of the step before."""
        return TwoHot(self.network(feature))
