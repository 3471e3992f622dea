"""Actor and critic on frames with a memory: a CNN and an LSTM (IRIS, Δ-IRIS)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from tokenworlds.behaviours.imagination import Trajectory, imagine, rollout
from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.inspection import Assessment
from tokenworlds.core.protocols import VectorEncoder, World
from tokenworlds.core.sharing import mean
from tokenworlds.core.types import ActionSpace, FrameShape, Losses, Segment, View, to_frames
from tokenworlds.nets.distributions import Bins, Value, ValueKind, value_of, value_width
from tokenworlds.nets.pixel_encoders import (
    FrameHistory,
    LSTMState,
    RecurrentNetwork,
    ResidualEncoder,
)
from tokenworlds.nets.policies import Policy, choose, policy_of, policy_width
from tokenworlds.nets.returns import (
    ReturnRange,
    lambda_return,
    move_towards,
    slow_copy,
    survival,
)


class PixelActorCritic(nn.Module, Component):
    """REINFORCE through the memory, with values of the critic or of a slow copy."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["PixelActorCritic"]):
        """`burn_in` is the number of frames read before the first frame of a dream. Without
        `target_decay` there is no slow copy. With `range_decay` advantages are divided by the
        range of returns. The critic's initial weights are scaled by `critic_scale`."""

        horizon: int = 15
        discount: float = 0.997
        return_lambda: float = 0.95
        burn_in: int = 5
        encoder: ConfigOf[VectorEncoder] = field(default_factory=ResidualEncoder.Config)
        recurrent: int = 512
        value: ValueKind = "two-hot"
        bins: Bins = "symlog"
        critic_scale: float = 0.0
        target_decay: float | None = 0.995
        range_decay: float | None = None

    def __init__(
        self,
        config: Config,
        *,
        feature_shape: tuple[int, ...],
        frame_shape: FrameShape,
        action_space: ActionSpace,
    ) -> None:
        super().__init__()
        self.config = config
        self.horizon = config.horizon
        self.action_space = action_space
        encoder = config.encoder.build(frame_shape=frame_shape)
        outputs = {"actions": policy_width(action_space), "values": value_width(config.value)}
        self.network = RecurrentNetwork(encoder, config.recurrent, **outputs)
        for parameter in self.network.critic.parameters():
            parameter.data.mul_(config.critic_scale)
        self.target = None if config.target_decay is None else slow_copy(self.network)
        self.return_range = None if config.range_decay is None else ReturnRange(config.range_decay)

    def initial(self, batch: int) -> LSTMState:
        return self.network.initial(batch)

    def compile_with(self, compile_function: Callable[..., Any]) -> None:
        # Not the dream: its steps would become one large graph.
        vars(self).update(losses_of=compile_function(self.losses_of))

    def policy(self, hidden: Float[Tensor, "*rest D"]) -> Policy:
        return policy_of(self.network.actor(hidden), self.action_space)

    def value(self, hidden: Float[Tensor, "*rest D"]) -> Value:
        return value_of(self.network.critic(hidden), self.config.value, self.config.bins)

    @torch.no_grad()
    def act(
        self, view: View, carry: LSTMState, generator: Generator | None, temperature: float = 1.0
    ) -> tuple[Tensor, LSTMState]:
        memory = self.network(view.frame, carry)
        return choose(self.policy(memory.hidden), temperature, generator), memory

    @property
    def discount(self) -> float:
        return self.config.discount

    @property
    def return_spread(self) -> float | None:
        return None if self.return_range is None else float(self.return_range.spread)

    @property
    def return_floor(self) -> float | None:
        return None if self.return_range is None else self.return_range.floor

    @torch.no_grad()
    def assess(self, view: View, carry: LSTMState) -> tuple[Assessment, LSTMState]:
        memory = self.network(view.frame, carry)
        policy = self.policy(memory.hidden)
        return Assessment(self.value(memory.hidden).mean, policy.entropy(), policy), memory

    def losses(self, world: World, segment: Segment, generator: Generator | None) -> Losses:
        """Dream from the end of a segment, then compute the losses of the dream."""
        past, starts = self.past(world, segment), segment.first[:, -1]
        with torch.no_grad():
            memory = self.network.burn_in(past, starts)
            carry = world.start(segment, self.horizon)
        dream, memories = self.dream(world, carry, memory, generator)
        hidden = torch.stack([memory.hidden for memory in memories])
        value = self.target_values(past, starts, dream, hidden, memories[-1])
        return self.losses_of(dream, hidden, value)

    @torch.no_grad()
    def past(self, world: World, segment: Segment) -> FrameHistory:
        """The frames before the first one of the dream."""
        before = segment.window(slice(0, -1))
        recent = slice(max(0, before.first.shape[1] - self.config.burn_in), None)
        empty = not before.first.shape[1]
        frame = to_frames(before.frame) if empty else world.policy_frames(before)[:, recent]
        return FrameHistory(frame, before.first[:, recent], before.mask[:, recent])

    def dream(
        self, world: World, carry: Any, memory: LSTMState, generator: Generator | None
    ) -> tuple[Trajectory, list[LSTMState]]:
        """Act in the world. Gradients flow through the memories, not through frames or actions."""
        memories = [memory]

        def act(frame: Tensor) -> Tensor:
            memories.append(self.network(frame, memories[-1]))
            with torch.no_grad():
                return self.policy(memories[-1].hidden).sample(generator)

        steps = imagine(
            world, carry, read=read_frame, act=act, steps=self.horizon, generator=generator
        )
        return rollout(steps), memories[1:]

    @torch.no_grad()
    def target_values(
        self,
        past: FrameHistory,
        starts: Bool[Tensor, " B"],
        dream: Trajectory,
        hidden: Float[Tensor, "T B D"],
        memory: LSTMState,
    ) -> Float[Tensor, "T1 B"]:
        """The values that returns bootstrap from: those of the slow copy, if there is one.

        The copy has its own memory: it reads past and dream as the learning network did.
        """
        if self.target is None:
            last = self.network(dream.observed[-1], memory).hidden
            return self.value(torch.cat([hidden, last.unsqueeze(0)])).mean
        frames = past.append(rearrange(dream.observed, "t b c h w -> b t c h w"), starts)
        outputs, _ = self.target.scan(frames)
        outputs = outputs[-len(dream.observed) :]
        return value_of(self.target.critic(outputs), self.config.value, self.config.bins).mean

    def losses_of(
        self, dream: Trajectory, hidden: Float[Tensor, "T B D"], target_value: Float[Tensor, "T1 B"]
    ) -> Losses:
        """`actor`, `entropy` (negative) and `critic`, weighted by survival."""
        policy, value = self.policy(hidden), self.value(hidden)
        discount, lambda_ = self.config.discount, self.config.return_lambda
        reward, terminated = dream.reward, dream.terminated
        returns = lambda_return(reward, terminated, target_value[1:], discount, lambda_)
        advantage = returns - target_value[:-1]
        if self.return_range is not None:
            advantage = advantage / self.return_range.scale()
        terms = {
            "actor": -policy.log_prob(dream.action) * advantage,
            "entropy": -policy.entropy(),
            "critic": value.loss(returns),
        }
        metrics = {
            "imagined_reward": mean(reward),
            "imagined_termination": mean(terminated),
            "return": mean(returns),
            "value_error": mean((returns - value.mean).detach().abs()),
        }
        if self.return_range is not None:
            metrics["return_spread"] = self.return_range.spread.clone()
        after = (partial(self._after, returns),)
        masks = dict.fromkeys(terms, survival(terminated))
        return Losses(terms, masks, metrics, after, {"entropy": 1e-3})

    def _after(self, returns: Float[Tensor, "T B"]) -> None:
        if self.return_range is not None:
            self.return_range.update(returns)
        if self.target is not None and self.config.target_decay is not None:
            move_towards(self.target, self.network, self.config.target_decay)


@torch.no_grad()
def read_frame(view: View) -> Float[Tensor, "B C H W"]:
    return view.frame
