"""Actor and critic that look at frames and remember them (IRIS, Δ-IRIS: a CNN and an LSTM)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.protocols import View, World
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import ActionSpace, FrameShape, Losses, Segment, to_frames
from tokenworlds.nets.distributions import Value, ValueKind, value_of, value_width
from tokenworlds.nets.pixel_encoders import (
    FrameHistory,
    LSTMState,
    PixelEncoder,
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


@dataclass(frozen=True, slots=True)
class Imagined:
    """Time first. Only `hidden` bears gradients; `frame` has one step more than the rest."""

    hidden: Float[Tensor, "T B D"]
    frame: Float[Tensor, "T1 B C H W"]
    action: Tensor
    reward: Float[Tensor, "T B"]
    terminated: Float[Tensor, "T B"]
    memory: LSTMState


class PixelActorCritic(nn.Module, Component):
    """REINFORCE through the memory of what was seen, against values of a slow copy or its own."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["PixelActorCritic"]):
        """Choices. At most `burn_in` frames before the one a dream begins with are looked at.
        Without `target_decay` there is no slow copy; with `range_decay` advantages are divided
        by the range of returns. The critic's first weights are scaled by `critic_scale`."""

        horizon: int = 15
        discount: float = 0.997
        return_lambda: float = 0.95
        burn_in: int = 5
        encoder: ConfigOf[PixelEncoder] = field(default_factory=ResidualEncoder.Config)
        recurrent: int = 512
        value: ValueKind = "two-hot"
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
        """Nothing was seen."""
        return self.network.initial(batch)

    def policy(self, hidden: Float[Tensor, "*rest D"]) -> Policy:
        """The distribution of actions."""
        return policy_of(self.network.actor(hidden), self.action_space)

    def value(self, hidden: Float[Tensor, "*rest D"]) -> Value:
        """What the learning critic expects."""
        return value_of(self.network.critic(hidden), self.config.value)

    @torch.no_grad()
    def act(
        self, view: View, carry: LSTMState, generator: Generator | None, temperature: float = 1.0
    ) -> tuple[Tensor, LSTMState]:
        """See the frame, then draw from the policy, or take its likeliest action at 0."""
        memory = self.network(view.frame, carry)
        return choose(self.policy(memory.hidden), temperature, generator), memory

    def lessons(
        self, world: World, segment: Segment, generator: Generator | None
    ) -> Iterator[Losses]:
        """One lesson for each dream."""
        yield self.losses(world, segment, generator)

    def losses(self, world: World, segment: Segment, generator: Generator | None) -> Losses:
        """Dream, then weigh what was done by how it turned out."""
        past, opens = self.past(world, segment), segment.first[:, -1]
        with torch.no_grad():
            memory = self.network.burn_in(past, opens)
        dream = self.imagine(world, segment, memory, generator)
        return self.losses_of(dream, self.judge(past, opens, dream))

    @torch.no_grad()
    def past(self, world: World, segment: Segment) -> FrameHistory:
        """What was seen before the frame that a dream begins with."""
        before = map_tensors(lambda leaf: leaf[:, :-1], segment)
        recent = slice(max(0, before.first.shape[1] - self.config.burn_in), None)
        nothing = not before.first.shape[1]
        frame = to_frames(before.frame) if nothing else world.seen(before)[:, recent]
        return FrameHistory(frame, before.first[:, recent], before.mask[:, recent])

    def imagine(
        self, world: World, segment: Segment, memory: LSTMState, generator: Generator | None
    ) -> Imagined:
        """Act in the world; gradients flow through the memory, not through frames or actions."""
        with torch.no_grad():
            carry = world.start(segment, self.horizon)
        frames, seen, actions, outcomes = [look(world.view(carry))], [], [], []
        for _ in range(self.horizon):
            memory = self.network(frames[-1], memory)
            with torch.no_grad():
                action = self.policy(memory.hidden).sample(generator)
                carry, dream = world.step(carry, action, generator)
            seen.append(memory.hidden)
            actions.append(action)
            frames.append(look(dream))
            outcomes.append(torch.stack([dream.reward, dream.terminated]))
        reward, terminated = torch.stack(outcomes, dim=1)
        return Imagined(
            torch.stack(seen), torch.stack(frames), torch.stack(actions), reward, terminated, memory
        )

    @torch.no_grad()
    def judge(
        self, past: FrameHistory, opens: Bool[Tensor, " B"], dream: Imagined
    ) -> Float[Tensor, "T1 B"]:
        """The values that returns are made of and compared with: the slow copy's, if there is one.

        The copy remembers for itself: it sees past and dream as the learning network did.
        """
        if self.target is None:
            last = self.network(dream.frame[-1], dream.memory).hidden
            return self.value(torch.cat([dream.hidden, last.unsqueeze(0)])).mean
        footage = past.append(rearrange(dream.frame, "t b c h w -> b t c h w"), opens)
        hidden, _ = self.target.scan(footage)
        return value_of(self.target.critic(hidden[-len(dream.frame) :]), self.config.value).mean

    def losses_of(self, dream: Imagined, judged: Float[Tensor, "T1 B"]) -> Losses:
        """`actor`, `entropy` (negative) and `critic` over steps still alive."""
        policy, value = self.policy(dream.hidden), self.value(dream.hidden)
        discount, lambda_ = self.config.discount, self.config.return_lambda
        returns = lambda_return(dream.reward, dream.terminated, judged[1:], discount, lambda_)
        advantage = returns - judged[:-1]
        if self.return_range is not None:
            advantage = advantage / self.return_range.scale()
        terms = {
            "actor": -policy.log_prob(dream.action) * advantage,
            "entropy": -policy.entropy(),
            "critic": value.loss(returns),
        }
        return Losses(
            terms,
            dict.fromkeys(terms, survival(dream.terminated)),
            self._metrics(dream, returns, value),
            (partial(self._after, returns),),
        )

    def _after(self, returns: Float[Tensor, "T B"]) -> None:
        if self.return_range is not None:
            self.return_range.update(returns)
        if self.target is not None and self.config.target_decay is not None:
            move_towards(self.target, self.network, self.config.target_decay)

    def _metrics(self, dream: Imagined, returns: Tensor, value: Value) -> dict[str, Tensor]:
        metrics = {
            "imagined_reward": dream.reward.mean(),
            "imagined_termination": dream.terminated.mean(),
            "return": returns.mean(),
            "value_error": (returns - value.mean).detach().abs().mean(),
        }
        if self.return_range is not None:
            metrics["return_spread"] = self.return_range.spread.clone()
        return metrics


@torch.no_grad()
def look(view: View) -> Float[Tensor, "B C H W"]:
    """The frame, made now."""
    return view.frame
