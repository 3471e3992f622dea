"""Play whole episodes to evaluate an agent: a fixed number per environment, of any length."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tokenworlds.agent import Agent
from tokenworlds.core.seeding import derive, torch_generator
from tokenworlds.core.types import ActionSpace
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.envs.vector import Finished, VectorEnv

Act = Callable[[Tensor, Tensor], Tensor]
"""Actions for a batch of frames and their `first` flags."""
ShouldStop = Callable[[], bool]


class EvaluationStopped(Exception):
    """`should_stop` returned True before all episodes were finished."""


def never() -> bool:
    return False


def evaluate(
    agent: Agent | None,
    env: EnvSpec,
    *,
    episodes: int,
    seed: int,
    temperature: float,
    num_envs: int = 16,
    should_stop: ShouldStop = never,
) -> list[Finished]:
    """Play episodes with an agent, or with uniformly random actions if it is None.

    The seed determines the environments and the actions.
    """
    with VectorEnv(env, num_envs=min(num_envs, episodes), seed=seed, evaluation=True) as envs:
        act = agent_act(agent, len(envs), seed, temperature) if agent else random_act(envs, seed)
        return play(envs, act, episodes, should_stop)


def random_act(envs: VectorEnv, seed: int) -> Act:
    generator = torch_generator(seed, "evaluation")
    return lambda frame, first: random_actions(envs.action_space, len(envs), generator)


def agent_act(agent: Agent, num_envs: int, seed: int, temperature: float) -> Act:
    """An agent as a function that keeps the carry."""
    generator = torch_generator(seed, "evaluation", device=str(agent.device))
    carry = agent.initial(num_envs)

    def act(frame: Tensor, first: Tensor) -> Tensor:
        nonlocal carry
        action, carry = agent.act(frame, first, carry, generator, temperature)
        return action

    return act


def play(
    envs: VectorEnv, act: Act, episodes: int, should_stop: ShouldStop = never
) -> list[Finished]:
    """Play until every environment has finished its share of the episodes.

    The shares are fixed in advance: keeping the first episodes to finish would favour short ones.
    """
    shares = np.array([len(part) for part in np.array_split(np.arange(episodes), len(envs))])
    finished: list[list[Finished]] = [[] for _ in shares]
    while any(len(kept) < share for kept, share in zip(finished, shares, strict=True)):
        if should_stop():
            raise EvaluationStopped
        action = act(torch.from_numpy(envs.frames), torch.from_numpy(envs.first))
        envs.step(action.cpu().numpy())
        for game in envs.finished():
            if len(finished[game.env]) < shares[game.env]:
                finished[game.env].append(game)
    return [game for kept in finished for game in kept]


def random_actions(space: ActionSpace, count: int, generator: torch.Generator) -> Tensor:
    """Uniform over the indices (discrete) or over [-1, 1] in each dimension (continuous)."""
    if space.discrete:
        return torch.randint(space.size, (count,), generator=generator, device=generator.device)
    cube = torch.rand((count, space.size), generator=generator, device=generator.device)
    return cube * 2 - 1


def evaluation_seed(seed: int, steps: int) -> int:
    """The seed of the evaluation episodes of a run after `steps` agent steps."""
    return derive(seed, "evaluation", steps)
