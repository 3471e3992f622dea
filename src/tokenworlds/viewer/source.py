"""Real steps of an agent: recorded ones, and games of its environment."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int

from tokenworlds.agent import BEHAVIOUR, JOINT, Agent, OpenedAgent
from tokenworlds.core.errors import UserError
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import Segment
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.evaluation.world.held_out import HeldOut, play_held_out
from tokenworlds.replay.sampling import gather
from tokenworlds.replay.store import ReplayStore
from tokenworlds.runs.own_code import Trust
from tokenworlds.sharing.starts import read_starts
from tokenworlds.training.evaluation import open_replay

LONGEST = 256
"""Steps of an episode that are shown at most."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Recorded steps, a row for each environment. `first` marks those that open an episode.

    `read` gives windows, from the environment and the step that each begins at.
    """

    first: Bool[np.ndarray, "N T"]
    read: Callable[[Int[np.ndarray, "B 2"], int], Segment]

    @property
    def num_envs(self) -> int:
        return int(self.first.shape[0])

    @property
    def length(self) -> int:
        return int(self.first.shape[1])

    @staticmethod
    def of_replay(store: ReplayStore) -> "Recording":
        return Recording(store.records["first"][:, : store.length], partial(gather, store))

    @staticmethod
    def of_segment(segment: Segment) -> "Recording":
        def read(starts: Int[np.ndarray, "B 2"], length: int) -> Segment:
            row, begin = (torch.from_numpy(part) for part in starts.T)
            time = begin[:, None] + torch.arange(length)
            return map_tensors(lambda leaf: leaf[row[:, None], time], segment)

        return Recording(segment.first.numpy(), read)


class Source:
    """Recorded steps are numbered from 0, environment after environment.

    They are those of the run's replay, or the few that were saved with an agent.
    """

    def __init__(self, opened: OpenedAgent, trust: Trust) -> None:
        self.opened, self._trust = opened, trust

    @cached_property
    def replay(self) -> Recording | None:
        opened = self.opened
        if self.starts is not None:
            return Recording.of_segment(self.starts)
        if opened.run is None or opened.spec is None or opened.checkpoint is None:
            return None
        store = open_replay(opened.run, opened.spec, opened.agent, opened.checkpoint)
        return Recording.of_replay(store)

    @property
    def replay_steps(self) -> int:
        return 0 if self.replay is None else self.replay.num_envs * self.replay.length

    def env(self) -> EnvSpec:
        """The agent's environment, unless it would execute code that the user did not name."""
        env = self.opened.env
        if env is None:
            raise UserError("this agent does not know its environment: start from replay")
        place = self.opened.run.path if self.opened.run else None
        self._trust.check_env(place or Path("this agent"), env.name)
        return env

    def recorded(self, step: int | None, rng: np.random.Generator) -> Segment:
        """The steps up to one of replay, a random one without a number: as many as a dream of
        training knows before its first frame."""
        if self.replay is None or not self.replay_steps:
            raise UserError("this agent has no replay to dream from: start from a reset")
        chosen = int(rng.integers(self.replay_steps)) if step is None else step
        if not 0 <= chosen < self.replay_steps:
            raise UserError(f"replay has the steps 0 to {self.replay_steps - 1:,}, not {chosen:,}")
        env, time = divmod(chosen, self.replay.length)
        begin = max(time + 1 - context_of(self.opened.agent), 0)
        return self.replay.read(np.array([[env, begin]]), time + 1 - begin)

    def episodes(self) -> list[tuple[int, int, int]]:
        """Environment, first and last step (exclusive) of each episode in replay."""
        if self.replay is None:
            return []
        found = []
        for env in range(self.replay.num_envs):
            begins = np.flatnonzero(self.replay.first[env])
            begins = np.union1d([0], begins) if self.replay.length else begins
            ends = [*begins[1:], self.replay.length]
            found += [(env, int(a), int(b)) for a, b in zip(begins, ends, strict=True)]
        return found

    def episode(self, number: int | None) -> tuple[Segment, int]:
        """The first steps of an episode and its number, the newest one's without a number."""
        episodes = self.episodes()
        if self.replay is None or not episodes:
            raise UserError("this agent has no replay: play an episode instead")
        if number is None:
            # The newest that is over; one that has just begun shows nothing.
            ends = [b if b < self.replay.length else -1 for _, _, b in episodes]
            number = int(np.argmax(ends))
        if not 0 <= number < len(episodes):
            raise UserError(f"replay has the episodes 0 to {len(episodes) - 1:,}, not {number:,}")
        env, begin, end = episodes[number]
        return self.replay.read(np.array([[env, begin]]), min(end - begin, LONGEST)), number

    def windows(self, count: int, length: int, rng: np.random.Generator) -> Segment | None:
        """Random windows of replay, shorter if it is; None if it has no two steps in a row."""
        if self.replay is None or self.replay.length < 2:
            return None
        length = min(length, self.replay.length)
        starts = rng.integers(
            [0, 0], [self.replay.num_envs, self.replay.length - length + 1], size=(count, 2)
        )
        return self.replay.read(starts, length).to(self.opened.agent.device)

    def played(self, seed: int, episodes: int = 1, longest: int = LONGEST) -> HeldOut:
        """Episodes that the agent plays now, each in an environment of its own."""
        agent, recipe = self.opened.agent, self.opened.agent.recipe
        temperature = 1.0 if recipe is None else recipe.evaluation.temperature
        return play_held_out(
            agent,
            self.env(),
            seed=seed,
            temperature=temperature,
            episodes=episodes,
            longest=longest,
        )

    @cached_property
    def starts(self) -> Segment | None:
        """The recorded steps that were saved with an agent."""
        folder = self.opened.folder
        return None if folder is None else read_starts(folder, self.opened.agent)

    def reset(self, rng: np.random.Generator) -> Segment:
        """The first frame of a new game, or a saved start where its environment is missing."""
        try:
            game = self.env().make(evaluation=True)
        except UserError:
            if self.starts is None:
                raise
            return self.recorded(None, rng)
        try:
            frame = game.reset(int(rng.integers(2**31)))
        finally:
            game.close()
        flag = torch.zeros(1, 1, dtype=torch.bool)
        action = self.opened.agent.action_space.zeros(1, 1)
        frames = torch.from_numpy(np.ascontiguousarray(frame))[None, None]
        return Segment(frames, ~flag, action, torch.zeros(1, 1), flag, flag, ~flag)


def context_of(agent: Agent) -> int:
    """As many real steps before a dream as when the policy learned."""
    learning = {} if agent.recipe is None else agent.recipe.learning
    found = learning.get(BEHAVIOUR) or learning.get(JOINT)
    return max(agent.world.frames, found.length if found else 1)
