"""Actor and critic that learn from dreams in latent space (DreamerV3's manner)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from tokenworlds.behaviours.rollout import Rollout, imagine, read
from tokenworlds.core.coded import Feature
from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.protocols import View, World
from tokenworlds.core.types import ActionSpace, Carry, FrameShape, Losses, Segment
from tokenworlds.nets.blocks import Perceptron, Style, shrink_output
from tokenworlds.nets.distributions import TwoHot
from tokenworlds.nets.policies import Policy, choose, policy_of, policy_width
from tokenworlds.nets.returns import (
    ReturnRange,
    lambda_return,
    move_towards,
    slow_copy,
    survival,
)


class LatentActorCritic(nn.Module, Component):
    """REINFORCE on normalised advantages, and a two-hot critic steadied by a slow copy."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["LatentActorCritic"]):
        """Choices."""

        horizon: int = 16
        discount: float = 0.985
        return_lambda: float = 0.95
        actor: tuple[int, ...] = (256, 256)
        critic: tuple[int, ...] = (512, 512)
        style: Style = "silu"
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
        outputs = policy_width(action_space)
        inputs = math.prod(feature_shape)
        actor = Perceptron(inputs, config.actor, outputs, config.style)
        critic = Perceptron(inputs, config.critic, 255, config.style)
        self.actor, self.critic = shrink_output(actor, 0.01), shrink_output(critic, 0.0)
        self.slow_critic = slow_copy(self.critic)
        self.return_range = ReturnRange(config.range_decay)

    def initial(self, batch: int) -> Carry:
        """Nothing is carried: the world's history is all there is to know."""
        return ()

    def policy(self, feature: Feature) -> Policy:
        """The distribution of actions."""
        return policy_of(self.actor(feature), self.action_space, self.config.unimix)

    @torch.no_grad()
    def act(
        self, view: View, carry: Carry, generator: Generator | None, temperature: float = 1.0
    ) -> tuple[Tensor, Carry]:
        """Draw from the policy, or take its likeliest action at temperature 0."""
        return choose(self.policy(read(view)), temperature, generator), carry

    def lessons(
        self, world: World, segment: Segment, generator: Generator | None
    ) -> Iterator[Losses]:
        """One lesson for each dream."""
        yield self.losses(world, segment, generator)

    def losses(self, world: World, segment: Segment, generator: Generator | None) -> Losses:
        """Dream, then weigh what was done by how it turned out."""
        start = world.start(segment, self.horizon)
        rollout = imagine(world, self, start, self.horizon, generator)
        return self.losses_of(rollout)

    def losses_of(self, rollout: Rollout) -> Losses:
        """`actor`, `entropy` (negative), `critic` and `slow_critic` over steps still alive."""
        feature = rollout.feature
        values, policy = TwoHot(self.critic(feature)), self.policy(feature[:-1])
        target = self._returns(rollout, values.mean.detach())
        advantage = (target - values.mean[:-1].detach()) / self.return_range.scale()
        with torch.no_grad():
            slow = TwoHot(self.slow_critic(feature[:-1])).mean
        critic = TwoHot(values.logits[:-1])
        terms = {
            "actor": -policy.log_prob(rollout.action) * advantage,
            "entropy": -policy.entropy(),
            "critic": critic.loss(target),
            "slow_critic": critic.loss(slow),
        }
        weight = survival(rollout.terminated)
        return Losses(
            terms,
            dict.fromkeys(terms, weight),
            self._metrics(rollout, target, values.mean[:-1]),
            (partial(self._after, target),),
        )

    def _returns(self, rollout: Rollout, value: Float[Tensor, "T B"]) -> Float[Tensor, "t B"]:
        discount, lambda_ = self.config.discount, self.config.return_lambda
        return lambda_return(rollout.reward, rollout.terminated, value[1:], discount, lambda_)

    def _after(self, target: Float[Tensor, "T B"]) -> None:
        self.return_range.update(target)
        move_towards(self.slow_critic, self.critic, self.config.slow_decay)

    def _metrics(self, rollout: Rollout, target: Tensor, value: Tensor) -> dict[str, Tensor]:
        return {
            "imagined_reward": rollout.reward.mean(),
            "imagined_termination": rollout.terminated.mean(),
            "return": target.mean(),
            "return_spread": self.return_range.spread.clone(),
            "value_error": (target - value).detach().abs().mean(),
        }
