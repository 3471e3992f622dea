"""DreamerV3's actor and critic, which share each update with the world (Hafner et al., 2023).

The discount is part of the world's termination probability, so returns have none of their own.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Generator, Tensor, nn

from tokenworlds.behaviours.imagination import Trajectory, imagine, rollout
from tokenworlds.core.capabilities import PredictsOutcome
from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.inspection import Assessment
from tokenworlds.core.protocols import World
from tokenworlds.core.sharing import mean
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import ActionSpace, Carry, FrameShape, Losses, Segment, View
from tokenworlds.nets.distributions import TwoHot
from tokenworlds.nets.dreamer import MLP
from tokenworlds.nets.policies import Policy, choose, policy_of, policy_width
from tokenworlds.nets.returns import (
    ReturnRange,
    lambda_return,
    move_towards,
    replayed_return,
    slow_copy,
    survival,
)


class DreamerActorCritic(nn.Module, Component):
    """REINFORCE in dreams from every replayed state; a critic of dreams and of replayed returns."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["DreamerActorCritic"]):
        """`discount` is that of replayed returns; dreams have the world's. The `slow_decay` is
        that of the slow critic, `range_decay` that of the range of returns."""

        horizon: int = 15
        discount: float = 1 - 1 / 333
        return_lambda: float = 0.95
        hidden: tuple[int, ...] = (256, 256, 256)
        bin_count: int = 255
        unimix: float = 0.0
        slow_decay: float = 0.98
        range_decay: float = 0.99

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
        inputs, outputs = math.prod(feature_shape), policy_width(action_space)
        self.actor = MLP(inputs, config.hidden, outputs, output_scale=0.01)
        self.critic = MLP(inputs, config.hidden, config.bin_count, output_scale=0.0)
        self.slow_critic = slow_copy(self.critic)
        self.return_range = ReturnRange(config.range_decay)

    def initial(self, batch: int) -> Carry:
        return ()

    def compile_with(self, compile_function: Callable[..., Any]) -> None:
        vars(self).update(losses_of=compile_function(self.losses_of))

    def policy(self, feature: Float[Tensor, "*rest D"]) -> Policy:
        return policy_of(self.actor(feature), self.action_space, self.config.unimix)

    @torch.no_grad()
    def act(
        self, view: View, carry: Carry, generator: Generator | None, temperature: float = 1.0
    ) -> tuple[Tensor, Carry]:
        return choose(self.policy(read(view)), temperature, generator), carry

    @property
    def discount(self) -> float:
        return self.config.discount

    @property
    def return_spread(self) -> float | None:
        return float(self.return_range.spread)

    @property
    def return_floor(self) -> float | None:
        return self.return_range.floor

    @torch.no_grad()
    def assess(self, view: View, carry: Carry) -> tuple[Assessment, Carry]:
        feature = read(view)
        value = TwoHot(self.critic(feature), "symexp").mean
        policy = self.policy(feature)
        return Assessment(value, policy.entropy(), policy), carry

    def losses(self, world: World, segment: Segment, generator: Generator | None) -> Losses:
        """Dreams from the end of a segment alone, for worlds that learn on their own."""
        start = world.start(segment, self.horizon)
        dream, alive = self.dream(world, start, generator)
        return self.losses_of(dream, alive, self.returns(dream))

    def losses_from_states(
        self, world: World, states: Carry, segment: Segment, generator: Generator | None
    ) -> Losses:
        """Dreams from every state of a segment, and the critic of replayed returns."""
        start = map_tensors(Tensor.detach, states)
        dream, alive = self.dream(world, start, generator)
        returns = self.returns(dream)
        feature = read(world.view(states))
        return self.losses_of(dream, alive, returns) | self.replay_losses(
            rearrange(feature, "(b t) d -> b t d", b=len(segment.first)),
            rearrange(returns[0], "(b t) -> b t", b=len(segment.first)),
            segment,
        )

    @torch.no_grad()
    def dream(
        self, world: World, start: Carry, generator: Generator | None
    ) -> tuple[Trajectory, Float[Tensor, " B"]]:
        """Imagined steps, and the probability that the first state has not terminated."""
        steps = imagine(
            world,
            start,
            read=read,
            act=lambda feature: self.policy(feature).sample(generator),
            steps=self.horizon,
            generator=generator,
        )
        dream = rollout(steps)
        if isinstance(world, PredictsOutcome):
            return dream, 1 - world.outcome(start).terminated
        return dream, torch.ones_like(dream.reward[0])

    @torch.no_grad()
    def returns(self, dream: Trajectory) -> Float[Tensor, "T B"]:
        value = TwoHot(self.critic(dream.observed[1:]), "symexp").mean
        lambda_ = self.config.return_lambda
        return lambda_return(dream.reward, dream.terminated, value, 1.0, lambda_)

    def losses_of(
        self, dream: Trajectory, alive: Float[Tensor, " B"], returns: Float[Tensor, "T B"]
    ) -> Losses:
        """`actor`, `entropy` (negative) and `critic`, plain means of weighted steps."""
        feature = dream.observed[:-1]
        policy, critic = self.policy(feature), TwoHot(self.critic(feature), "symexp")
        weight = alive * survival(dream.terminated)
        spread = self.return_range.updated(returns)
        advantage = (returns - critic.mean.detach()) / spread.clamp_min(1.0)
        terms = {
            "actor": -policy.log_prob(dream.action) * advantage * weight,
            "entropy": -policy.entropy() * weight,
            "critic": self._critic_loss(critic, feature, returns) * weight,
        }
        metrics = {
            "imagined_reward": mean(dream.reward),
            "imagined_termination": mean(dream.terminated),
            "return": mean(returns),
            "return_spread": spread,
            "value_error": mean((returns - critic.mean).detach().abs()),
            "policy_entropy": mean(policy.entropy().detach()),
        }
        masks = dict.fromkeys(terms, torch.ones_like(weight))
        after = (partial(self._after, spread),)
        return Losses(terms, masks, metrics, after, {"entropy": 3e-4})

    def _critic_loss(
        self,
        critic: TwoHot,
        feature: Float[Tensor, "*rest D"],
        target: Float[Tensor, "*rest"],
    ) -> Float[Tensor, "*rest"]:
        """Towards the target, and towards the slow critic's mean."""
        with torch.no_grad():
            slow = TwoHot(self.slow_critic(feature), "symexp").mean
        return critic.loss(target) + critic.loss(slow)

    def replay_losses(
        self,
        feature: Float[Tensor, "B t D"],
        bootstrap: Float[Tensor, "B t"],
        segment: Segment,
    ) -> Losses:
        """The critic on replayed rewards; its gradient enters the world."""
        steps = segment.window(slice(1, None))
        discount, lambda_ = self.config.discount, self.config.return_lambda
        target, known = replayed_return(steps, bootstrap, discount, lambda_)
        critic = TwoHot(self.critic(feature[:, :-1]), "symexp")
        loss = self._critic_loss(critic, feature[:, :-1], target) * known
        masks = {"replay_critic": torch.ones_like(loss)}
        return Losses({"replay_critic": loss}, masks, scales={"replay_critic": 0.3})

    def _after(self, spread: Tensor) -> None:
        self.return_range.spread.copy_(spread)
        move_towards(self.slow_critic, self.critic, self.config.slow_decay)


def read(view: View) -> Float[Tensor, "B D"]:
    return rearrange(view.feature, "b ... -> b (...)")
