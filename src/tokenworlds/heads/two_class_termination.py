"""Whether a step ended the episode, as one of two classes (IRIS, Δ-IRIS)."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.distributions import Bernoulli
from tokenworlds.nets.readout import Readout


class TwoClassTermination(nn.Module, Component):
    """A logit for yes and one for no; their difference is all that matters."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["TwoClassTermination"]):
        """No choices."""

    def __init__(self, config: Config, *, width: int) -> None:
        super().__init__()
        self.network = Readout(width, 2)

    def forward(self, feature: Float[Tensor, "*rest D"]) -> Bernoulli:
        """A time limit is no ending."""
        no, yes = self.network(feature).unbind(-1)
        return Bernoulli(yes - no)
