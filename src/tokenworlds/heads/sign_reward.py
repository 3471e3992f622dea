"""The sign of a reward, as one of three classes (IRIS: Micheli et al., 2023)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.distributions import Categorical
from tokenworlds.nets.readout import Readout


@dataclass(frozen=True, slots=True)
class Sign:
    """-1, 0 or 1."""

    classes: Categorical

    def loss(self, target: Float[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        """Cross-entropy of the target's sign."""
        # A target that is no number must give a loss that is none, not an index out of bounds.
        chosen = self.classes.loss(torch.sign(target).nan_to_num().long() + 1)
        return chosen.masked_fill(target.isnan(), torch.nan)

    @property
    def mean(self) -> Float[Tensor, "*rest"]:
        """The expected sign."""
        probs = self.classes.mean
        return probs[..., 2] - probs[..., 0]

    @property
    def mode(self) -> Float[Tensor, "*rest"]:
        """The likeliest sign."""
        return (self.classes.mode - 1).to(self.classes.log_probs.dtype)

    def sample(self, generator: Generator | None) -> Float[Tensor, "*rest"]:
        """Draw a sign."""
        return (self.classes.sample(generator) - 1).to(self.classes.log_probs.dtype)

    def entropy(self) -> Float[Tensor, "*rest"]:
        """In nats."""
        return self.classes.entropy()


class SignReward(nn.Module, Component):
    """Reads the position of an action."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["SignReward"]):
        """No choices."""

    def __init__(self, config: Config, *, width: int) -> None:
        super().__init__()
        self.network = Readout(width, 3)

    def forward(self, feature: Float[Tensor, "*rest D"]) -> Sign:
        """Of the action just taken."""
        return Sign(Categorical.of(self.network(feature)))
