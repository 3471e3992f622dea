"""Heads for the outcome of a step, reward and termination, and their losses.

The feature is that of the state after the step, or at the step's action (IRIS). Two-hot heads start
with equal logits: random ones would stand for enormous rewards. A time limit is no termination.
"""

from dataclasses import dataclass

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Float
from torch import Generator, Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.protocols import Head
from tokenworlds.core.types import Losses, Segment, masked_mean
from tokenworlds.nets.blocks import Perceptron, Style, shrink_output
from tokenworlds.nets.distributions import Bernoulli, Bins, CategoricalDistribution, TwoHot
from tokenworlds.nets.readout import Readout


@dataclass(frozen=True, kw_only=True, slots=True)
class TwoHotConfig:
    """The choices of every two-hot head; the number of bins is odd, so that one is at 0."""

    bins: Bins = "symlog"
    bin_count: int = 255

    def __post_init__(self) -> None:
        if self.bin_count < 3 or self.bin_count % 2 == 0:
            raise ValueError(f"bin_count={self.bin_count} must be odd and 3 or more")


class RewardHead(nn.Module):
    """The heads that may stand at `world.reward`."""


class TerminationHead(nn.Module):
    """The heads that may stand at `world.termination`."""


class TwoHotReward(RewardHead):
    """A network whose outputs are two-hot logits."""

    def __init__(self, network: nn.Module, config: TwoHotConfig) -> None:
        super().__init__()
        self.network, self.bins = network, config.bins

    def forward(self, feature: Float[Tensor, "*rest D"]) -> TwoHot:
        return TwoHot(self.network(feature), self.bins)


class MLPReward(TwoHotReward, Component):
    """Two-hot logits from an MLP with norms (STORM, STEP-VQ)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(TwoHotConfig, ConfigOf["MLPReward"]):
        hidden: tuple[int, ...] = (256,)
        style: Style = "silu"

    def __init__(self, config: Config, *, width: int) -> None:
        network = Perceptron(width, config.hidden, config.bin_count, config.style)
        super().__init__(shrink_output(network, 0.0), config)


class ReadoutReward(TwoHotReward, Component):
    """Two-hot logits from one ReLU layer as wide as the feature (Δ-IRIS)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(TwoHotConfig, ConfigOf["ReadoutReward"]):
        pass

    def __init__(self, config: Config, *, width: int) -> None:
        network = Readout(width, config.bin_count)
        nn.init.zeros_(network.output.weight)
        super().__init__(network, config)


@dataclass(frozen=True, slots=True)
class Sign:
    """-1, 0 or 1."""

    classes: CategoricalDistribution

    def loss(self, target: Float[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        """The cross-entropy of the target's sign; NaN for a NaN target."""
        chosen = self.classes.loss(torch.sign(target).nan_to_num().long() + 1)
        return chosen.masked_fill(target.isnan(), torch.nan)

    @property
    def mean(self) -> Float[Tensor, "*rest"]:
        probs = self.classes.mean
        return probs[..., 2] - probs[..., 0]

    @property
    def mode(self) -> Float[Tensor, "*rest"]:
        return (self.classes.mode - 1).to(self.classes.log_probs.dtype)

    def sample(self, generator: Generator | None) -> Float[Tensor, "*rest"]:
        return (self.classes.sample(generator) - 1).to(self.classes.log_probs.dtype)

    def entropy(self) -> Float[Tensor, "*rest"]:
        return self.classes.entropy()


class SignReward(RewardHead, Component):
    """The sign of the reward, from one ReLU layer as wide as the feature (IRIS)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["SignReward"]):
        pass

    def __init__(self, config: Config, *, width: int) -> None:
        super().__init__()
        self.network = Readout(width, 3)

    def forward(self, feature: Float[Tensor, "*rest D"]) -> Sign:
        return Sign(CategoricalDistribution.of(self.network(feature)))


@dataclass(frozen=True, kw_only=True, slots=True)
class MapConfig:
    """`channels` of each cell, `hidden` units for the whole map."""

    channels: int = 32
    hidden: int = 512

    def network(self, shape: tuple[int, int, int], outputs: int) -> nn.Sequential:
        """A 1x1 convolution, then two linear layers over all cells."""
        inputs, height, width = shape
        return nn.Sequential(
            nn.Conv2d(inputs, self.channels, 1),
            nn.LayerNorm((self.channels, height, width)),
            nn.LeakyReLU(),
            nn.Flatten(),
            nn.Linear(self.channels * height * width, self.hidden),
            nn.LeakyReLU(),
            nn.Linear(self.hidden, outputs),
        )


class MapSignReward(RewardHead, Component):
    """The sign of the reward, from a map (Smaller World Models)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(MapConfig, ConfigOf["MapSignReward"]):
        pass

    def __init__(self, config: Config, *, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.network = config.network(shape, 3)

    def forward(self, feature: Float[Tensor, "*rest C H W"]) -> Sign:
        maps, lead = pack([feature], "* c h w")
        (logits,) = unpack(self.network(maps), lead, "* classes")
        return Sign(CategoricalDistribution.of(logits))


class MapTermination(TerminationHead, Component):
    """One logit from a map, by a network like that of the reward."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(MapConfig, ConfigOf["MapTermination"]):
        pass

    def __init__(self, config: Config, *, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.network = config.network(shape, 1)

    def forward(self, feature: Float[Tensor, "*rest C H W"]) -> Bernoulli:
        maps, lead = pack([feature], "* c h w")
        (logits,) = unpack(rearrange(self.network(maps), "b 1 -> b"), lead, "*")
        return Bernoulli(logits)


class MLPTermination(TerminationHead, Component):
    """One logit from an MLP with norms."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["MLPTermination"]):
        hidden: tuple[int, ...] = (256,)
        style: Style = "silu"

    def __init__(self, config: Config, *, width: int) -> None:
        super().__init__()
        self.network = Perceptron(width, config.hidden, 1, config.style)

    def forward(self, feature: Float[Tensor, "*rest D"]) -> Bernoulli:
        return Bernoulli(rearrange(self.network(feature), "... 1 -> ..."))


class ReadoutTermination(TerminationHead, Component):
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


def outcome_losses(
    reward: Head, termination: Head, feature: Float[Tensor, "B T D"], segment: Segment
) -> Losses:
    """`reward` and `termination` of each step, predicted from the feature at its index."""
    rewards = reward_losses(reward, feature, segment)
    return rewards | termination_losses(termination, feature, segment)


def reward_losses(reward: Head, feature: Float[Tensor, "B T *rest"], segment: Segment) -> Losses:
    predicted, mask = reward(feature), segment.mask
    error = (predicted.mean - segment.reward).detach().abs()
    terms = {"reward": predicted.loss(segment.reward)}
    return Losses(terms, {"reward": mask}, {"reward_error": masked_mean(error, mask)})


def termination_losses(
    termination: Head, feature: Float[Tensor, "B T *rest"], segment: Segment
) -> Losses:
    predicted, mask = termination(feature), segment.mask
    wrong = (predicted.mode != segment.terminated).float()
    terms = {"termination": predicted.loss(segment.terminated)}
    return Losses(terms, {"termination": mask}, {"termination_error": masked_mean(wrong, mask)})
