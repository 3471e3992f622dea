"""Whether a step ended the episode."""

from dataclasses import dataclass

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.blocks import Perceptron, Style
from tokenworlds.nets.distributions import Bernoulli


class Termination(nn.Module, Component):
    """A small network that reads the state a step led to."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Termination"]):
        """Choices."""

        hidden: tuple[int, ...] = (256,)
        style: Style = "silu"

    def __init__(self, config: Config, *, width: int) -> None:
        super().__init__()
        self.network = Perceptron(width, config.hidden, 1, config.style)

    def forward(self, feature: Float[Tensor, "*rest D"]) -> Bernoulli:
        """Of the step before; a time limit is no ending."""
        return Bernoulli(rearrange(self.network(feature), "... 1 -> ..."))
