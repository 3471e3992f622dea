"""A dream written down: H actions from a start, with the states they led to."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from tokenworlds.core.protocols import Behaviour, World
from tokenworlds.core.types import Carry


@dataclass(frozen=True, slots=True)
class Rollout:
    """Time first. `feature` has one step more than the rest: the state after the last action."""

    feature: Float[Tensor, "T1 B *D"]
    action: Tensor
    reward: Float[Tensor, "T B"]
    ending: Float[Tensor, "T B"]


@torch.no_grad()
def imagine(
    world: World, behaviour: Behaviour, start: Carry, horizon: int, generator: Generator | None
) -> Rollout:
    """Let the behaviour act in the world; no gradient flows through a dream."""
    view = world.view(start)
    carry, memory = start, behaviour.initial(len(view.feature))
    features, actions, rewards, endings = [view.feature], [], [], []
    for _ in range(horizon):
        action, memory = behaviour.act(view, memory, generator)
        carry, view = world.step(carry, action, generator)
        features.append(view.feature)
        actions.append(action)
        rewards.append(view.reward)
        endings.append(view.ending)
    return Rollout(
        torch.stack(features), torch.stack(actions), torch.stack(rewards), torch.stack(endings)
    )
