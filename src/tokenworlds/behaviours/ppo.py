"""Proximal policy optimisation (Schulman et al., 2017), in dreams or on real steps."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from tokenworlds.behaviours.imagination import Trajectory, imagine, rollout
from tokenworlds.core.capabilities import DescribesSteps
from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.inspection import Assessment
from tokenworlds.core.precision import widen
from tokenworlds.core.protocols import VectorEncoder, World
from tokenworlds.core.sharing import gathered, mean, own_part
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import (
    ActionSpace,
    Carry,
    FrameShape,
    Losses,
    Segment,
    View,
    masked_mean,
)
from tokenworlds.nets.policies import Policy, choose, policy_of, policy_width
from tokenworlds.nets.policy_networks import GridNetwork
from tokenworlds.nets.returns import (
    clipped_error,
    clipped_gain,
    generalised_advantage,
    normalised,
    survival,
)


@dataclass(frozen=True, slots=True)
class Experience(Trajectory):
    """Where `cut` is set, the next state is not known. `weight` is the weight of each step."""

    cut: Bool[Tensor, "T B"]
    weight: Float[Tensor, "T B"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Steps in any order, with the policy and values from before the update."""

    observed: Float[Tensor, "B *D"]
    action: Tensor
    log_prob: Float[Tensor, " B"]
    value: Float[Tensor, " B"]
    advantage: Float[Tensor, " B"]
    weight: Float[Tensor, " B"]

    def take(self, index: Tensor) -> "Batch":
        return map_tensors(lambda leaf: leaf[index], self)


class PPO(nn.Module, Component):
    """Several epochs over the same steps, with a clipped change of the policy."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["PPO"]):
        """Without `value_clip` values may change by any amount. Without `bootstraps` the last step
        counts as terminated, as in the released code of Smaller World Models. `looks_at` is what
        the policy reads. With `experience="real"` it learns from all steps of a segment but the
        last, which the present policy must have collected at temperature 1. `sign_rewards` is for
        real rewards."""

        horizon: int = 50
        discount: float = 0.99
        return_lambda: float = 0.95
        clip: float = 0.1
        value_clip: float | None = 0.1
        epochs: int = 4
        minibatch: int = 256
        bootstraps: bool = True
        looks_at: Literal["feature", "frame"] = "feature"
        network: ConfigOf[VectorEncoder] = field(default_factory=GridNetwork.Config)
        experience: Literal["dream", "real"] = "dream"
        sign_rewards: bool = False

        @property
        def on_policy(self) -> bool:
            return self.experience == "real"

    def __init__(
        self,
        config: Config,
        *,
        feature_shape: tuple[int, ...],
        frame_shape: FrameShape,
        action_space: ActionSpace,
    ) -> None:
        super().__init__()
        check_config(config)
        self.config = config
        self.action_space = action_space
        # Real steps must not count as imagined ones.
        self.horizon = 0 if config.on_policy else config.horizon
        frame = (frame_shape.channels, frame_shape.height, frame_shape.width)
        shape = feature_shape if config.looks_at == "feature" else frame
        self.network = config.network.build(shape=map_shape(shape))
        self.actor = nn.Linear(self.network.width, policy_width(action_space))
        self.critic = nn.Linear(self.network.width, 1)

    def initial(self, batch: int) -> Carry:
        return ()

    def encode(self, observed: Float[Tensor, "B *d"]) -> Float[Tensor, "B D"]:
        """The vector that policy and value read. A vector is a map of one cell."""
        return self.network(
            observed if observed.dim() == 4 else rearrange(observed, "b d -> b d 1 1")
        )

    def policy(self, hidden: Float[Tensor, "*rest D"]) -> Policy:
        return policy_of(self.actor(hidden), self.action_space)

    def value(self, hidden: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest"]:
        return widen(self.critic(hidden).squeeze(-1))

    @torch.no_grad()
    def act(
        self, view: View, carry: Carry, generator: Generator | None, temperature: float = 1.0
    ) -> tuple[Tensor, Carry]:
        return choose(self.policy(self.encode(self.read(view))), temperature, generator), carry

    @property
    def discount(self) -> float:
        return self.config.discount

    @property
    def return_spread(self) -> float | None:
        return None

    @property
    def return_floor(self) -> float | None:
        return None

    @torch.no_grad()
    def assess(self, view: View, carry: Carry) -> tuple[Assessment, Carry]:
        hidden = self.encode(self.read(view))
        policy = self.policy(hidden)
        return Assessment(self.value(hidden), policy.entropy(), policy), carry

    def read(self, view: View) -> Tensor:
        return view.feature if self.config.looks_at == "feature" else view.frame

    def losses(
        self, world: World, segment: Segment, generator: Generator | None
    ) -> Iterator[Losses]:
        """The losses of each minibatch: all steps in random order, `epochs` times."""
        experience = self.gather(world, segment, generator)
        steps, metrics = self.prepare(experience), self._experience_metrics(experience)
        count, device = len(steps.weight), steps.weight.device
        for _ in range(self.config.epochs):
            order = torch.randperm(count, generator=generator, device=device)
            for index in order.split(self.config.minibatch):
                yield self.losses_of(steps.take(own_part(index))) | metrics

    def gather(self, world: World, segment: Segment, generator: Generator | None) -> Experience:
        """Imagined steps, or the real steps of the segment."""
        if not self.config.on_policy:
            return self.dream(world, segment, generator)
        real = real_steps(world, segment, self.config.looks_at)
        return replace(real, reward=real.reward.sign()) if self.config.sign_rewards else real

    @torch.no_grad()
    def dream(self, world: World, segment: Segment, generator: Generator | None) -> Experience:
        """Imagined steps from the end of a segment, each weighted by its survival."""
        steps = imagine(
            world,
            world.start(segment, self.horizon),
            read=self.read,
            act=lambda observed: self.policy(self.encode(observed)).sample(generator),
            steps=self.horizon,
            generator=generator,
        )
        dream = rollout(steps)
        outcome = (dream.reward, dream.terminated)
        cut = torch.zeros_like(dream.terminated, dtype=torch.bool)
        return Experience(dream.observed, dream.action, *outcome, cut, survival(dream.terminated))

    @torch.no_grad()
    def prepare(self, experience: Experience) -> Batch:
        """Advantages, and the policy's log-probabilities and values before it learns.

        Minibatches are drawn from the steps of all ranks.

        For real steps these are the probabilities at which the actions were sampled, because
        nothing was learned in between.
        """
        rows, observed = experience.reward.shape[1], flat(experience.observed)
        pieces = [self.encode(piece) for piece in observed.split(self.config.minibatch)]
        hidden = rearrange(torch.cat(pieces), "(t b) d -> t b d", b=rows)
        value = self.value(hidden)
        shown = rearrange(observed[:-rows], "(t b) ... -> t b ...", b=rows)
        steps = (
            shown,
            experience.action,
            self.policy(hidden[:-1]).log_prob(experience.action),
            value[:-1],
            self.advantage(experience, value),
            experience.weight,
        )
        return Batch(*(flat(gathered(each, axis=1)) for each in steps))

    def advantage(
        self, experience: Experience, value: Float[Tensor, "T1 B"]
    ) -> Float[Tensor, "T B"]:
        terminated = experience.terminated
        if not self.config.bootstraps:
            terminated = torch.cat([terminated[:-1], torch.ones_like(terminated[-1:])])
        discount, lambda_ = self.config.discount, self.config.return_lambda
        reward, cut = experience.reward, experience.cut
        return generalised_advantage(reward, terminated, value, discount, lambda_, cut)

    def losses_of(self, steps: Batch) -> Losses:
        """`policy`, `value` and `entropy` (negative) of a minibatch."""
        hidden = self.encode(steps.observed)
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
        scales = {"value": 0.5, "entropy": 0.01}
        return Losses(columns, dict.fromkeys(terms, weight), means, scales=scales)

    def _metrics(self, change: Tensor, error: Tensor) -> dict[str, Tensor]:
        """The divergence is an estimate from one action (Schulman, 2020)."""
        ratio = change.exp()
        return {
            "clip_fraction": ((ratio - 1).abs() > self.config.clip).float(),
            "approximate_kl": ratio - 1 - change,
            "value_error": error.abs(),
        }

    def _experience_metrics(self, experience: Experience) -> Losses:
        kind = "real" if self.config.on_policy else "imagined"
        outcome = {"reward": experience.reward, "termination": experience.terminated}
        return Losses({}, {}, {f"{kind}_{name}": mean(each) for name, each in outcome.items()})


@torch.no_grad()
def real_steps(world: World, segment: Segment, looks_at: Literal["feature", "frame"]) -> Experience:
    """The steps of a segment but the last, which only gives a value.

    Replay does not hold the frame after a truncation, so the next state of that step is unknown.
    """
    if segment.first.shape[1] < 2:
        raise UserError("learning from real steps takes segments of two steps or more")
    observed, complete = observe_all(world, segment, looks_at)
    follows = segment.mask[:, 1:] & ~segment.first[:, 1:]
    cut = ~segment.terminated[:, :-1] & (segment.truncated[:, :-1] | ~follows)
    weight = (segment.mask & complete)[:, :-1] & ~cut
    rest = (segment.action[:, :-1], segment.reward[:, :-1], segment.terminated[:, :-1].float())
    return Experience(*map(time_first, (observed, *rest, cut, weight.float())))


def observe_all(
    world: World, segment: Segment, looks_at: Literal["feature", "frame"]
) -> tuple[Float[Tensor, "B T *D"], Bool[Tensor, "B T"]]:
    """What the policy reads of every step, and whether it is what it read when it acted."""
    if looks_at == "frame":
        return world.policy_frames(segment), segment.mask
    if isinstance(world, DescribesSteps):
        return world.features(segment)
    raise UserError(
        f"the world 'real' gives features of real steps, {type(world).__name__} does not: "
        "choose looks_at='frame' or experience='dream', or that world"
    )


def time_first(x: Tensor) -> Tensor:
    return rearrange(x, "b t ... -> t b ...")


def flat(x: Tensor) -> Tensor:
    return rearrange(x, "t b ... -> (t b) ...")


def map_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Channels, height and width."""
    if len(shape) == 1:
        return (shape[0], 1, 1)
    if len(shape) == 3:
        return (shape[0], shape[1], shape[2])
    raise UserError(f"PPO reads vectors and maps of channels, not features of shape {shape}")


def check_config(config: PPO.Config) -> None:
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
