"""Actor and critic on latent features, trained in dreams (as in DreamerV3)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Generator, Tensor, nn

from tokenworlds.behaviours.imagination import Trajectory, imagine, rollout
from tokenworlds.core.capabilities import ReadsStates
from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.inspection import Assessment
from tokenworlds.core.overrides import snake_case
from tokenworlds.core.protocols import World
from tokenworlds.core.sharing import mean
from tokenworlds.core.types import (
    ActionSpace,
    Carry,
    Cells,
    Feature,
    FrameShape,
    Losses,
    Segment,
    TokenFeature,
    View,
    stack_features,
)
from tokenworlds.nets.blocks import Perceptron, Style, shrink_output
from tokenworlds.nets.cells import CellSummary
from tokenworlds.nets.distributions import Bins, TwoHot
from tokenworlds.nets.policies import Policy, choose, policy_of, policy_width
from tokenworlds.nets.returns import (
    ReturnRange,
    lambda_return,
    move_towards,
    replayed_return,
    slow_copy,
    survival,
)

REPLAY = "replay_critic"


class LatentActorCritic(nn.Module, Component):
    """REINFORCE on normalised advantages; a two-hot critic, regularised towards a slow copy."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["LatentActorCritic"]):
        """`range_floor` is the least spread of returns that advantages are divided by. `local`
        adds convolutions over the grid of tokens, which actor and critic share. It has no effect
        in worlds whose tokens have no grid. `starts="every"`: dreams start from every state of a
        segment instead of the last one, and the critic also learns the returns of the segment's
        own rewards, as in DreamerV3."""

        horizon: int = 16
        discount: float = 0.985
        return_lambda: float = 0.95
        actor: tuple[int, ...] = (256, 256)
        critic: tuple[int, ...] = (512, 512)
        style: Style = "silu"
        unimix: float = 0.0
        bins: Bins = "symlog"
        slow_decay: float = 0.98
        range_decay: float = 0.99
        range_floor: float = 1.0
        local: CellSummary.Config | None = None
        starts: Literal["last", "every"] = "last"

    def __init__(
        self,
        config: Config,
        *,
        feature_shape: tuple[int, ...],
        frame_shape: FrameShape,
        action_space: ActionSpace,
        cells: Cells | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.horizon = config.horizon
        self.action_space = action_space
        outputs = policy_width(action_space)
        self.local = config.local.build(cells=cells) if config.local and cells else None
        inputs = math.prod(feature_shape) + (self.local.width if self.local else 0)
        actor = Perceptron(inputs, config.actor, outputs, config.style)
        critic = Perceptron(inputs, config.critic, 255, config.style)
        self.actor, self.critic = shrink_output(actor, 0.01), shrink_output(critic, 0.0)
        self.slow_critic = slow_copy(self.critic)
        self.return_range = ReturnRange(config.range_decay, config.range_floor)

    def initial(self, batch: int) -> Carry:
        return ()

    def compile_with(self, compile_function: Callable[..., Any]) -> None:
        # Not the dream: its steps would become one large graph.
        vars(self).update(losses_of=compile_function(self.losses_of))

    def policy(self, feature: Feature) -> Policy:
        return self._policy(self._read(feature))

    def _policy(self, inputs: Feature) -> Policy:
        return policy_of(self.actor(inputs), self.action_space, self.config.unimix)

    def _read(self, feature: Feature) -> Feature:
        """What actor and critic read of a state: its feature, and what is found on the grid."""
        if self.local is None or not isinstance(feature, TokenFeature):
            return feature
        found = self.local(feature.index)
        return replace(feature, vector=torch.cat([feature.vector, found], dim=-1))

    @torch.no_grad()
    def act(
        self, view: View, carry: Carry, generator: Generator | None, temperature: float = 1.0
    ) -> tuple[Tensor, Carry]:
        return choose(self.policy(view.compact_feature), temperature, generator), carry

    @property
    def dreams_from_every(self) -> bool:
        return self.config.starts == "every"

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
        inputs = self._read(view.compact_feature)
        value = TwoHot(self.critic(inputs), self.config.bins).mean
        policy = self._policy(inputs)
        return Assessment(value, policy.entropy(), policy), carry

    def losses(self, world: World, segment: Segment, generator: Generator | None) -> Losses:
        """Dream from a segment, then compute the losses of the dream."""
        if not self.dreams_from_every:
            return self.losses_of(self.dream(world, world.start(segment, self.horizon), generator))
        if not isinstance(world, ReadsStates):
            name = snake_case(type(world).__name__)
            raise UserError(
                "behaviour.starts=every needs a world that gives every state of a segment, as "
                f"latent does, and {name} does not: take starts=last"
            )
        states = world.states(segment, self.horizon)
        return self.losses_of(self.dream(world, states, generator), segment)

    @torch.no_grad()
    def dream(self, world: World, carry: Carry, generator: Generator | None) -> Trajectory:
        steps = imagine(
            world,
            carry,
            read=lambda view: view.compact_feature,
            act=lambda feature: self.policy(feature).sample(generator),
            steps=self.horizon,
            generator=generator,
        )
        return rollout(steps, stack_features)

    def losses_of(self, dream: Trajectory, segment: Segment | None = None) -> Losses:
        """`actor`, `entropy` (negative), `critic` and `slow_critic`, weighted by survival.

        With the segment whose every state the dream starts from, also `replay_critic`.
        """
        feature = self._read(dream.observed)
        values, policy = TwoHot(self.critic(feature), self.config.bins), self._policy(feature[:-1])
        value = values.mean.detach()
        discount, lambda_ = self.config.discount, self.config.return_lambda
        target = lambda_return(dream.reward, dream.terminated, value[1:], discount, lambda_)
        advantage = (target - value[:-1]) / self.return_range.scale()
        with torch.no_grad():
            slow = TwoHot(self.slow_critic(feature[:-1]), self.config.bins).mean
        critic = TwoHot(values.logits[:-1], self.config.bins)
        terms = {
            "actor": -policy.log_prob(dream.action) * advantage,
            "entropy": -policy.entropy(),
            "critic": critic.loss(target),
            "slow_critic": critic.loss(slow),
        }
        weight = survival(dream.terminated)
        metrics = {
            "imagined_reward": mean(dream.reward),
            "imagined_termination": mean(dream.terminated),
            "return": mean(target),
            "return_spread": self.return_range.spread.clone(),
            "value_error": mean((target - value[:-1]).abs()),
        }
        after = (partial(self._after, target),)
        losses = Losses(terms, dict.fromkeys(terms, weight), metrics, after, {"entropy": 3e-4})
        return losses if segment is None else losses | self._replayed(critic, target[0], segment)

    def _replayed(self, critic: TwoHot, imagined: Float[Tensor, " B"], segment: Segment) -> Losses:
        """The critic on the segment's own rewards; where it ends, the return is the imagined one.

        Dreams go where the critic is too high, and without real rewards it would learn from them
        alone.
        """
        batch = len(segment.first)
        bootstrap = rearrange(imagined, "(b t) -> b t", b=batch)
        discount, lambda_ = self.config.discount, self.config.return_lambda
        target, known = replayed_return(segment, bootstrap, discount, lambda_)
        logits = rearrange(critic.logits[0], "(b t) v -> b t v", b=batch)
        term = TwoHot(logits[:, :-1], self.config.bins).loss(target)
        return Losses({REPLAY: term}, {REPLAY: known}, scales={REPLAY: 0.3})

    def _after(self, target: Float[Tensor, "T B"]) -> None:
        self.return_range.update(target)
        move_towards(self.slow_critic, self.critic, self.config.slow_decay)
