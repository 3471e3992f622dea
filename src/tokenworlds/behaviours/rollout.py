"""A dream written down: H actions from a start, with the states they led to."""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Generator, Tensor

from tokenworlds.core.coded import Coded, Feature, stack
from tokenworlds.core.protocols import Behaviour, View, World
from tokenworlds.core.types import Carry


@dataclass(frozen=True, slots=True)
class Rollout:
    """Time first. `feature` has one step more than the rest: the state after the last action."""

    feature: Feature
    action: Tensor
    reward: Float[Tensor, "T B"]
    terminated: Float[Tensor, "T B"]


def read(view: View) -> Feature:
    """The feature of a state, told by codes if the view can tell it so."""
    coded: Coded | None = getattr(view, "coded", None)
    return rearrange(view.feature, "b ... -> b (...)") if coded is None else coded


@torch.no_grad()
def imagine(
    world: World, behaviour: Behaviour, start: Carry, horizon: int, generator: Generator | None
) -> Rollout:
    """Let the behaviour act in the world; no gradient flows through a dream."""
    view = world.view(start)
    features, actions, rewards, terminations = [read(view)], [], [], []
    carry, memory = start, behaviour.initial(len(features[0]))
    for _ in range(horizon):
        action, memory = behaviour.act(view, memory, generator)
        carry, view = world.step(carry, action, generator)
        features.append(read(view))
        actions.append(action)
        rewards.append(view.reward)
        terminations.append(view.terminated)
    return Rollout(
        stack(features), torch.stack(actions), torch.stack(rewards), torch.stack(terminations)
    )
