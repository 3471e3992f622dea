"""Playing whole episodes to judge a agent: so many for each stream, however long they last."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from tokenworlds.agent import Agent
from tokenworlds.core.seeding import torch_generator
from tokenworlds.core.types import ActionSpace
from tokenworlds.envs.spec import EnvSpec
from tokenworlds.envs.vector import VectorEnv

Act = Callable[[Tensor, Tensor], Tensor]
Stop = Callable[[], bool]


class EvaluationStopped(Exception):
    """The games were given up because somebody asked to stop."""


def never() -> bool:
    """Nobody asks to stop."""
    return False


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished game, and what else it told of itself."""

    score: float
    length: int
    facts: Mapping[str, float] = field(default_factory=dict)


def evaluate(
    agent: Agent,
    env: EnvSpec,
    *,
    episodes: int,
    seed: int,
    temperature: float,
    num_envs: int = 16,
    should_stop: Stop = never,
) -> list[Episode]:
    """Let a agent play; the seed fixes the games and the agent's choices."""
    with VectorEnv(env, num_envs=min(num_envs, episodes), seed=seed, evaluation=True) as envs:
        act = agent_act(agent, len(envs), seed, temperature)
        return play(envs, act, episodes, should_stop)


def evaluate_random(
    env: EnvSpec, *, episodes: int, seed: int, num_envs: int = 16, should_stop: Stop = never
) -> list[Episode]:
    """The same games played without a thought, to compare with."""
    with VectorEnv(env, num_envs=min(num_envs, episodes), seed=seed, evaluation=True) as envs:
        generator = torch_generator(seed, "evaluation")
        space, count = envs.action_space, len(envs)

        def act(frame: Tensor, first: Tensor) -> Tensor:
            return random_actions(space, count, generator)

        return play(envs, act, episodes, should_stop)


def agent_act(agent: Agent, num_envs: int, seed: int, temperature: float) -> Act:
    """A agent with its memory, as a function of what it sees."""
    generator = torch_generator(seed, "evaluation", device=str(agent.device))
    carry = agent.initial(num_envs)

    def act(frame: Tensor, first: Tensor) -> Tensor:
        nonlocal carry
        action, carry = agent.act(frame, first, carry, generator, temperature)
        return action

    return act


def play(envs: VectorEnv, act: Act, episodes: int, should_stop: Stop = never) -> list[Episode]:
    """Play until every stream has finished its share; raises `EvaluationStopped` if asked to stop.

    Shares are fixed beforehand: taking the first games to finish would favour short ones.
    """
    shares = np.array([len(part) for part in np.array_split(np.arange(episodes), len(envs))])
    finished: list[list[Episode]] = [[] for _ in shares]
    while any(len(games) < share for games, share in zip(finished, shares, strict=True)):
        if should_stop():
            raise EvaluationStopped
        action = act(torch.from_numpy(envs.frames), torch.from_numpy(envs.first))
        envs.step(action.cpu().numpy())
        for game in envs.finished():
            if len(finished[game.stream]) < shares[game.stream]:
                finished[game.stream].append(Episode(game.score, game.length, game.facts))
    return [game for games in finished for game in games]


def random_actions(space: ActionSpace, count: int, generator: torch.Generator) -> Tensor:
    """Actions without a thought: uniform over choices, or over the cube."""
    if space.discrete:
        return torch.randint(space.size, (count,), generator=generator, device=generator.device)
    cube = torch.rand((count, space.size), generator=generator, device=generator.device)
    return cube * 2 - 1
