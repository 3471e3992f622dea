"""Play whole episodes to evaluate an agent.

The seed of an episode follows from that of the evaluation and its index. Episodes are played in
fixed groups, each a batch with its own generator of actions, on one thread: the result does not
depend on the number of processes or cores.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from tokenworlds.agent import Agent, AgentCarry
from tokenworlds.core.seeding import derive, torch_generator
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import ActionSpace
from tokenworlds.envs.boundary import plain_info
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.envs.vector import CheckedEnv
from tokenworlds.evaluation.processes import Check, Team
from tokenworlds.runs.own_code import own_files

GROUP = 16
"""The most episodes of a group. A larger batch acts faster, more groups keep more cores busy."""
Policy = Agent | None
"""An agent, or uniformly random actions."""
ShouldStop = Callable[[], bool]


class EvaluationStopped(Exception):
    """`should_stop` returned True before all episodes were finished."""


@dataclass(frozen=True, slots=True)
class Episode:
    """The seed of its environment, its return and its agent steps; `info` is of the last step."""

    seed: int
    score: float
    length: int
    info: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Group:
    """Episodes from `first` to `last` of a policy, which are played at the same time."""

    policy: int
    first: int
    last: int


def evaluate(
    policies: Sequence[Policy],
    env: EnvSpec,
    *,
    episodes: int,
    seed: int,
    temperature: float,
    processes: int = 1,
    should_stop: ShouldStop = lambda: False,
) -> list[list[Episode]]:
    """Play episodes with each policy, in environments of the same seeds.

    If that takes longer than a few seconds, up to `processes` processes play; environments that
    only this process knows are played by this one alone.
    """

    def check() -> None:
        if should_stop():
            raise EvaluationStopped

    def arguments() -> tuple[Any, ...]:
        return ([pack(policy) for policy in policies], env, seed, temperature)

    groups = [group for policy in range(len(policies)) for group in groups_of(policy, episodes)]
    helpers = processes - 1 if all(map(can_travel, policies)) else 0
    with one_thread(), contextlib.closing(Player(policies, env, seed, temperature)) as player:
        team = Team(groups, unpacked_player, arguments, helpers)
        played = team.run(player.play, check)
    return [
        [episode for group in groups if group.policy == policy for episode in played[group]]
        for policy in range(len(policies))
    ]


def groups_of(policy: int, episodes: int) -> Iterator[Group]:
    """Equal groups, as few as possible, but two where that is possible."""
    count = max(-(-episodes // GROUP), min(episodes, 2))
    for part in np.array_split(np.arange(episodes), count):
        yield Group(policy, int(part[0]), int(part[-1]))


def episode_seed(seed: int, index: int) -> int:
    """The seed of an episode's environment."""
    return derive(seed, "episode", index)


class Player:
    """Plays groups of episodes. The environments are kept for the next group."""

    def __init__(
        self, policies: Sequence[Policy], env: EnvSpec, seed: int, temperature: float
    ) -> None:
        self._policies = policies
        self._env = env
        self._seed = seed
        self._temperature = temperature
        self._envs: list[CheckedEnv] = []

    def play(self, group: Group, check: Check) -> list[Episode]:
        """The episodes in order. One that is over leaves the batch."""
        indices = range(group.first, group.last + 1)
        while len(self._envs) < len(indices):
            self._envs.append(CheckedEnv(self._env.name, self._env.make(evaluation=True)))
        running = dict(zip(indices, self._envs, strict=False))
        for index, env in running.items():
            check()
            env.begin(episode_seed(self._seed, index), index)
        act = self._actor(group, next(iter(running.values())).env.action_space)
        finished: dict[int, Episode] = {}
        rows = torch.arange(len(running))
        while running:
            check()
            envs = running.values()
            frames, first = np.stack([e.frame for e in envs]), np.array([e.first for e in envs])
            actions = act(torch.from_numpy(frames), torch.from_numpy(first), rows).cpu().numpy()
            over = self._step(running, actions, finished)
            rows = torch.tensor([row for row, is_over in enumerate(over) if not is_over])
            running = {index: env for index, env in running.items() if index not in finished}
        return [finished[index] for index in indices]

    def _step(
        self,
        running: Mapping[int, CheckedEnv],
        actions: np.ndarray,
        finished: dict[int, Episode],
    ) -> list[bool]:
        """Execute one action each; returns which episodes are over, and keeps those."""
        over = []
        for (index, env), action in zip(running.items(), actions, strict=True):
            step = env.advance(np.asarray(action))
            over.append(bool(step.over))
            if step.over:
                seed, info = episode_seed(self._seed, index), plain_info(step.info)
                finished[index] = Episode(seed, env.score, env.length, info)
        return over

    def _actor(
        self, group: Group, space: ActionSpace
    ) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """A function of frames, `first` and the rows of the last batch that are still played."""
        agent = self._policies[group.policy]
        device = "cpu" if agent is None else str(agent.device)
        names = ("random actions" if agent is None else "actions", group.first)
        generator = torch_generator(self._seed, *names, device=device)
        if agent is None:
            return lambda frame, first, rows: random_actions(space, len(frame), generator)
        carry: AgentCarry | None = None

        def act(frame: Tensor, first: Tensor, rows: Tensor) -> Tensor:
            nonlocal carry
            if carry is not None and len(rows) < len(carry.action):
                kept = rows.to(agent.device)
                carry = map_tensors(lambda tensor: tensor[kept], carry)
            action, carry = agent.act(frame, first, carry, generator, self._temperature)
            return action

        return act

    def close(self) -> None:
        for env in self._envs:
            env.close()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes on one thread within the block: sums depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def can_travel(policy: Policy) -> bool:
    """Whether another process can rebuild a policy: it does not know the user's own files."""
    if policy is None:
        return True
    return (
        policy.recipe is not None and policy.device.type == "cpu" and not own_files(policy.recipe)
    )


def pack(policy: Policy) -> tuple[Any, ...] | None:
    """What another process needs to rebuild a policy."""
    if policy is None:
        return None
    weights = {name: each.contiguous() for name, each in policy.state_dict().items()}
    parts = (policy.recipe, policy.frame_shape, policy.action_space, policy.precision)
    return (*parts, save(weights))


def unpack(packed: tuple[Any, ...] | None) -> Policy:
    if packed is None:
        return None
    *parts, weights = packed
    agent = Agent.build(*parts)
    agent.load_state_dict(load(weights))
    return agent


def unpacked_player(
    packed: Sequence[tuple[Any, ...] | None], env: EnvSpec, seed: int, temperature: float
) -> Callable[[Group, Check], list[Episode]]:
    return Player([unpack(each) for each in packed], env, seed, temperature).play


def random_actions(space: ActionSpace, count: int, generator: torch.Generator) -> Tensor:
    """Uniform over the indices (discrete) or over [-1, 1] in each dimension (continuous)."""
    if space.discrete:
        return torch.randint(space.size, (count,), generator=generator, device=generator.device)
    cube = torch.rand((count, space.size), generator=generator, device=generator.device)
    return cube * 2 - 1


def evaluation_seed(seed: int, steps: int, *, final: bool = False) -> int:
    """The seed of the evaluation episodes of a run after `steps` agent steps.

    The final evaluation plays other episodes than those that chose the best checkpoint.
    """
    return derive(seed, "final evaluation" if final else "evaluation", steps)
