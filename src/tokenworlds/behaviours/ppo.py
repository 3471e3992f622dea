"""Proximal policy optimisation (Schulman et al., 2017), in dreams or on real steps."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Generator, Tensor, nn

from tokenworlds.behaviours.experience import Experience, Look, dream, look, look_back
from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import widen
from tokenworlds.core.protocols import View, World
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import ActionSpace, Carry, FrameShape, Losses, Segment, masked_mean
from tokenworlds.nets.policies import Policy, choose, policy_of, policy_width
from tokenworlds.nets.policy_networks import GridNetwork, PolicyNetwork
from tokenworlds.nets.returns import (
    clipped_error,
    clipped_gain,
    generalised_advantage,
    normalised,
)


@dataclass(frozen=True, slots=True)
class Judged:
    """Steps in any order: what was seen and done, what was thought of it, how it turned out."""

    seen: Float[Tensor, "B *D"]
    action: Tensor
    log_prob: Float[Tensor, " B"]
    value: Float[Tensor, " B"]
    advantage: Float[Tensor, " B"]
    weight: Float[Tensor, " B"]

    def take(self, index: Tensor) -> "Judged":
        """Some of them."""
        return map_tensors(lambda leaf: leaf[index], self)


class PPO(nn.Module, Component):
    """Several passes over the same steps, in each of which the policy may change a little."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["PPO"]):
        """Choices. Without `value_clip` values may change by any amount; without `bootstraps` the
        last step counts as an ending, as in the released code of Smaller World Models. Real
        experience is all of a segment but its last step, whatever the horizon: it must have been
        collected by the present policy, at temperature 1. `sign_rewards` is for real rewards."""

        horizon: int = 50
        discount: float = 0.99
        return_lambda: float = 0.95
        clip: float = 0.1
        value_clip: float | None = 0.1
        epochs: int = 4
        minibatch: int = 256
        bootstraps: bool = True
        looks_at: Look = "feature"
        network: ConfigOf[PolicyNetwork] = field(default_factory=GridNetwork.Config)
        experience: Literal["dream", "real"] = "dream"
        sign_rewards: bool = False

    def __init__(
        self,
        config: Config,
        *,
        feature_shape: tuple[int, ...],
        frame_shape: FrameShape,
        action_space: ActionSpace,
    ) -> None:
        super().__init__()
        insist_on_counts(config)
        self.config = config
        self.action_space = action_space
        # What is not dreamt is not to be counted as imagined.
        self.horizon = config.horizon if config.experience == "dream" else 0
        frame = (frame_shape.channels, frame_shape.height, frame_shape.width)
        shown = feature_shape if config.looks_at == "feature" else frame
        self.network = config.network.build(shape=map_shape(shown))
        self.actor = nn.Linear(self.network.width, policy_width(action_space))
        self.critic = nn.Linear(self.network.width, 1)

    def initial(self, batch: int) -> Carry:
        """Nothing is carried: all there is to know is seen."""
        return ()

    def read(self, seen: Float[Tensor, "B *d"]) -> Float[Tensor, "B D"]:
        """What policy and value are made from; a vector is a map of one site."""
        return self.network(seen if seen.dim() == 4 else rearrange(seen, "b d -> b d 1 1"))

    def policy(self, hidden: Float[Tensor, "*rest D"]) -> Policy:
        """The distribution of actions."""
        return policy_of(self.actor(hidden), self.action_space)

    def value(self, hidden: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest"]:
        """The return that is expected."""
        return widen(self.critic(hidden).squeeze(-1))

    @torch.no_grad()
    def act(
        self, view: View, carry: Carry, generator: Generator | None, temperature: float = 1.0
    ) -> tuple[Tensor, Carry]:
        """Draw from the policy, or take its likeliest action at temperature 0."""
        hidden = self.read(look(view, self.config.looks_at))
        return choose(self.policy(hidden), temperature, generator), carry

    def lessons(
        self, world: World, segment: Segment, generator: Generator | None
    ) -> Iterator[Losses]:
        """All steps in random order, `epochs` times; a lesson for each minibatch of them."""
        experience = self.gather(world, segment, generator)
        steps, told = self.judge(experience), self._told(experience)
        count, device = len(steps.weight), steps.weight.device
        for _ in range(self.config.epochs):
            order = torch.randperm(count, generator=generator, device=device)
            for index in order.split(self.config.minibatch):
                yield self.losses_of(steps.take(index)) | told

    def gather(self, world: World, segment: Segment, generator: Generator | None) -> Experience:
        """Steps to learn from, with no gradient through them."""
        looks_at = self.config.looks_at
        if self.config.experience == "dream":

            def act(seen: Tensor) -> Tensor:
                return self.policy(self.read(seen)).sample(generator)

            return dream(world, segment, self.horizon, looks_at, act, generator)
        lived = look_back(world, segment, looks_at)
        return replace(lived, reward=lived.reward.sign()) if self.config.sign_rewards else lived

    @torch.no_grad()
    def judge(self, experience: Experience) -> Judged:
        """What policy and critic think of the steps before they learn from them.

        Of real steps too these are the probabilities they were drawn with, as long as nothing was
        learned since; that is so for all but the one which the last update only judged.
        """
        rows, seen = experience.reward.shape[1], flat(experience.seen)
        pieces = [self.read(piece) for piece in seen.split(self.config.minibatch)]
        hidden = rearrange(torch.cat(pieces), "(t b) d -> t b d", b=rows)
        value = self.value(hidden)
        judged = (
            experience.action,
            self.policy(hidden[:-1]).log_prob(experience.action),
            value[:-1],
            self.advantage(experience, value),
            experience.weight,
        )
        return Judged(seen[:-rows], *map(flat, judged))

    def advantage(
        self, experience: Experience, value: Float[Tensor, "T1 B"]
    ) -> Float[Tensor, "T B"]:
        """How much better each step turned out than was expected."""
        terminated = experience.terminated
        if not self.config.bootstraps:
            terminated = torch.cat([terminated[:-1], torch.ones_like(terminated[-1:])])
        discount, lambda_ = self.config.discount, self.config.return_lambda
        reward, cut = experience.reward, experience.cut
        return generalised_advantage(reward, terminated, value, discount, lambda_, cut)

    def losses_of(self, steps: Judged) -> Losses:
        """`policy`, `value` and `entropy` (negative) of a minibatch."""
        hidden = self.read(steps.seen)
        policy, value = self.policy(hidden), self.value(hidden)
        change = policy.log_prob(steps.action) - steps.log_prob
        advantage, target = normalised(steps.advantage, steps.weight), steps.value + steps.advantage
        terms = {
            "policy": -clipped_gain(change.exp(), advantage, self.config.clip),
            "value": 0.5 * clipped_error(value, steps.value, target, self.config.value_clip),
            "entropy": -policy.entropy(),
        }
        metrics = self._metrics(change.detach(), target - value.detach())
        columns = {name: rearrange(term, "b -> b 1") for name, term in terms.items()}
        weight = rearrange(steps.weight, "b -> b 1")
        means = {name: masked_mean(each, steps.weight) for name, each in metrics.items()}
        return Losses(columns, dict.fromkeys(terms, weight), means)

    def _metrics(self, change: Tensor, miss: Tensor) -> dict[str, Tensor]:
        """Of each step; the divergence is an estimate from one action (Schulman, 2020)."""
        ratio = change.exp()
        return {
            "clip_fraction": ((ratio - 1).abs() > self.config.clip).float(),
            "approximate_kl": ratio - 1 - change,
            "value_error": miss.abs(),
        }

    def _told(self, experience: Experience) -> Losses:
        """No terms, only what the steps themselves tell."""
        kind = "imagined" if self.config.experience == "dream" else "real"
        outcome = {"reward": experience.reward, "terminated": experience.terminated}
        return Losses({}, {}, {f"{kind}_{name}": each.mean() for name, each in outcome.items()})


def flat(x: Tensor) -> Tensor:
    """Steps of all rows in line."""
    return rearrange(x, "t b ... -> (t b) ...")


def map_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Channels, height and width of what is seen."""
    if len(shape) == 1:
        return (shape[0], 1, 1)
    if len(shape) == 3:
        return (shape[0], shape[1], shape[2])
    raise UserError(f"PPO reads vectors and maps of channels, not features of shape {shape}")


def insist_on_counts(config: PPO.Config) -> None:
    """Refuse what leaves nothing to learn from."""
    for name in ("horizon", "epochs", "minibatch"):
        if getattr(config, name) < 1:
            raise UserError(f"behaviour.{name} takes 1 or more, not {getattr(config, name)}")
    for name in ("clip", "value_clip"):
        value = getattr(config, name)
        if value is not None and value <= 0:
            raise UserError(f"behaviour.{name} takes more than 0, not {value}")
    for name in ("discount", "return_lambda"):
        if not 0 <= getattr(config, name) <= 1:
            raise UserError(f"behaviour.{name} takes 0 to 1, not {getattr(config, name)}")
