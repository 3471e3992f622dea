"""The reward of a step, as a two-hot distribution in symlog, read by a plain network (Δ-IRIS)."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.distributions import TwoHot
from tokenworlds.nets.readout import Readout


class TwoHotReward(nn.Module, Component):
    """Begins with all bins alike: weights at random would stand for enormous rewards."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["TwoHotReward"]):
        """Choices."""

        bins: int = 255

    def __init__(self, config: Config, *, width: int) -> None:
        super().__init__()
        self.network = Readout(width, config.bins)
        nn.init.zeros_(self.network.output.weight)

    def forward(self, feature: Float[Tensor, "*rest D"]) -> TwoHot:
        """Of the action just taken."""
        return TwoHot(self.network(feature))
