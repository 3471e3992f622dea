"""Many environments at once, in this process or in worker processes.

Each environment always shows a frame: when a game is over, the next one begins in the same step.
The seed of a game follows from the seed of the `VectorEnv`, the index of the environment and the
number of the game. The trajectories do not depend on the number of workers.
"""

import contextlib
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt8
from numpy.typing import NDArray

from tokenworlds.core.group import ALONE, Group
from tokenworlds.core.protocols import Env
from tokenworlds.core.seeding import derive
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.boundary import (
    FAULTS,
    EnvironmentFailed,
    check_frame,
    check_step,
    failure,
    plain_info,
    reason,
)
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.envs.workers import ANSWER_SECONDS, Worker

REPLAYED_PER_ANSWER = 1000
"""A replay may take the time of one answer for each of this many actions."""
__all__ = ["EnvironmentFailed", "Finished", "Observations", "VectorEnv", "VectorStep"]


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished game: its environment, its number there, its return and its agent steps.

    `info` is that of its last step.
    """

    env: int
    game: int
    score: float
    length: int
    info: Mapping[str, float] = field(default_factory=dict)


class Observations(NamedTuple):
    """The current frame of each environment, and whether it is the first of an episode."""

    frames: UInt8[np.ndarray, "N H W C"]
    first: Bool[np.ndarray, " N"]


class VectorStep(NamedTuple):
    """The result of one action in each environment."""

    reward: Float[np.ndarray, " N"]
    terminated: Bool[np.ndarray, " N"]
    truncated: Bool[np.ndarray, " N"]
    over: Bool[np.ndarray, " N"]


@dataclass(slots=True)
class Running:
    """A running game: its number in its environment, and its actions."""

    game: int = 0
    actions: list[Any] = field(default_factory=list)


class VectorEnv:
    """Several copies of one environment."""

    def __init__(
        self,
        spec: EnvSpec,
        *,
        num_envs: int,
        seed: int,
        evaluation: bool = False,
        workers: int = 0,
        timeout: float = ANSWER_SECONDS,
        group: Group = ALONE,
    ) -> None:
        """With 0 workers the environments run in this process, one after the other. They are spread
        over the ranks of a group, which steps in lockstep: each rank knows what all of them show.

        A worker that does not answer within `timeout` seconds is killed. An environment in this
        process cannot be timed out: if it hangs, the process hangs.
        """
        split = spread(num_envs, group.size, workers)
        self._group, self._parts = group, [*itertools.chain.from_iterable(split)]
        self._before = sum(map(len, split[: group.rank]))
        """How many parts belong to lower ranks."""
        self._open = True
        self._workers: list[SerialEnvs | Worker] = []
        self._finished: list[Finished] = []
        self._restarted = np.zeros(num_envs, bool)
        self._running = [Running() for _ in range(num_envs)]

        def make(part: NDArray[Any]) -> SerialEnvs | Worker:
            given = (spec, part.tolist(), seed, evaluation)
            if not workers:
                return SerialEnvs(*given)
            copies = f"copies {part[0]} to {part[-1]}" if len(part) > 1 else f"copy {part[0]}"
            name = f"environment {spec.name}: the worker of {copies}"
            return Worker(name, SerialEnvs, *given, timeout=timeout)

        with self._closing_on_failure():
            group.all_do(lambda: self._workers.extend(map(make, split[group.rank])), True)
        self.frame_shape, self.action_space = self._call(SerialEnvs.spaces)[0]
        self._now = _join_observations(self._call(SerialEnvs.observe))

    def __len__(self) -> int:
        return len(self._restarted)

    @property
    def frames(self) -> UInt8[np.ndarray, "N H W C"]:
        """The current frames; later steps do not overwrite this array."""
        return self._now.frames

    @property
    def first(self) -> Bool[np.ndarray, " N"]:
        """Where the current frame opens an episode: a new game, or a new life in training."""
        return self._now.first

    @property
    def restarted(self) -> Bool[np.ndarray, " N"]:
        """Where `restore` could not replay a game and began the next one; until the next step.

        The last step of the lost game is neither terminated nor truncated.
        """
        return self._restarted

    def step(self, actions: NDArray[Any]) -> VectorStep:
        """Execute one action in each environment; begin the next game where one is over.

        If an environment fails, all are closed, and `frames`, `first`, `finished` and `state`
        remain those before the step.
        """
        if len(actions) != len(self):
            raise ValueError(f"{len(actions)} actions for {len(self)} environments")
        results = self._call(SerialEnvs.step, [actions[part] for part in self._parts])
        steps, observations, finished = zip(*results, strict=True)
        self._now = _join_observations(observations)
        self._finished += itertools.chain.from_iterable(finished)
        self._restarted = np.zeros(len(self), bool)
        step = VectorStep(*map(np.concatenate, zip(*steps, strict=True)))
        for env, (action, over) in enumerate(zip(actions.tolist(), step.over, strict=True)):
            if over:
                self._running[env] = Running(self._running[env].game + 1)
            else:
                self._running[env].actions.append(action)
        return step

    def finished(self) -> list[Finished]:
        """The games that finished since the last call."""
        games, self._finished = self._finished, []
        return games

    def state(self) -> dict[str, Any]:
        """All that `restore` needs, as JSON; running games are stored as their actions.

        It does not ask the environments, so it can still be read after one has failed.
        """
        shown = zip(self._running, self._now.frames, self._now.first, strict=True)
        envs = [
            {
                "game": running.game,
                "actions": list(running.actions),
                "frame": frame_hash(frame),
                "first": bool(first),
            }
            for running, frame, first in shown
        ]
        return {"envs": envs, "finished": [asdict(game) for game in self._finished]}

    def restore(self, state: Mapping[str, Any]) -> list[str]:
        """Replay the running games of a saved state; returns one warning for each that failed.

        Where a replay does not reach the saved frame, the next game begins.
        """
        saved = state["envs"]
        if len(saved) != len(self):
            raise ValueError(f"a state of {len(saved)} environments for {len(self)} environments")
        parts = [[saved[env] for env in part] for part in self._parts]
        most = max(sum(len(env["actions"]) for env in part) for part in parts)
        results = self._call(SerialEnvs.restore, parts, patience=1 + most / REPLAYED_PER_ANSWER)
        warnings = list(itertools.chain.from_iterable(results))
        self._finished = [Finished(**game) for game in state["finished"]]
        self._restarted = np.array([warning is not None for warning in warnings])
        self._running = [
            Running(env["game"], list(env["actions"]))
            if warning is None
            else Running(env["game"] + 1)
            for env, warning in zip(saved, warnings, strict=True)
        ]
        self._now = _join_observations(self._call(SerialEnvs.observe))
        return [warning for warning in warnings if warning is not None]

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers, self._open = [], False

    def __enter__(self) -> "VectorEnv":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _call(
        self, method: Callable[..., Any], *arguments: Sequence[Any], patience: float = 1.0
    ) -> list[Any]:
        """The results of all workers, which run at the same time; one argument for each."""
        if not self._open:
            raise RuntimeError("these environments are closed")

        def call_own() -> list[Any]:
            for index, worker in enumerate(self._workers, start=self._before):
                worker.call(method, *(given[index] for given in arguments))
            return [worker.result(patience) for worker in self._workers]

        with self._closing_on_failure():
            return [*itertools.chain.from_iterable(self._group.all_do(call_own, patience > 1))]

    @contextlib.contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Some environments may have made a step that others have not, and results that were
            # not read would be taken for those of the next call.
            self.close()
            raise


def spread(num_envs: int, ranks: int, workers: int) -> list[list[NDArray[np.int64]]]:
    """The environments of each worker of each rank; the first ranks may have one more."""
    return [
        np.array_split(share, max(1, min(workers, len(share)))) if len(share) else []
        for share in np.array_split(np.arange(num_envs), ranks)
    ]


def _join_observations(parts: Iterable[Observations]) -> Observations:
    return Observations(*map(np.concatenate, zip(*parts, strict=True)))


class CheckedEnv:
    """One environment and its running game.

    All values of the environment are checked here, and all of its errors become
    `EnvironmentFailed`.
    """

    def __init__(self, name: str, env: Env) -> None:
        self.name = name
        self.env = env

    def begin(self, seed: int, game: int) -> None:
        """Begin the game of a seed; its number names it in errors."""
        try:
            frame = self.env.reset(seed)
            check_frame(frame, self.env.frame_shape)
        except FAULTS as error:
            raise failure(self.name, f"failed at the start of game {game}", error) from error
        self._show(frame, True)
        self.game, self.score, self.length = game, 0.0, 0

    def advance(self, action: NDArray[Any]) -> EnvStep:
        try:
            step = self.env.step(action)
            check_step(step, self.env.frame_shape)
        except FAULTS as error:
            when = f"failed at step {self.length + 1} of game {self.game}"
            raise failure(self.name, when, error) from error
        self.length += 1
        self.score += float(step.reward)
        self._show(step.frame, bool(step.terminated or step.truncated))
        return step

    def _show(self, frame: NDArray[np.uint8], first: bool) -> None:
        # A copy, because the environment may draw its next frame into the same array.
        self.frame, self.first = np.array(frame), first

    def close(self) -> None:
        # An environment that cannot close must not hide the error or the result before it.
        with contextlib.suppress(*FAULTS):
            self.env.close()


class AutoResetEnv(CheckedEnv):
    """Begins its next game when one is over, and can replay a saved game."""

    def __init__(self, name: str, env: Env, seed: int, index: int) -> None:
        super().__init__(name, env)
        self.index = index
        self._seed = seed
        self._begin_game(0)

    def _begin_game(self, game: int) -> None:
        self.begin(derive(self._seed, "env", self.index, game), game)

    def step(self, action: NDArray[Any]) -> tuple[EnvStep, Finished | None]:
        step = self.advance(action)
        if not step.over:
            return step, None
        info = plain_info(step.info)
        finished = Finished(self.index, self.game, self.score, self.length, info)
        self._begin_game(self.game + 1)
        return step, finished

    def restore(self, saved: Mapping[str, Any]) -> str | None:
        """Replay the saved game; if that fails, begin the next one and return a warning."""
        problem = self._replay(saved)
        if problem is None:
            return None
        self._begin_game(saved["game"] + 1)
        return (
            f"environment {self.index}: game {saved['game']} could not be replayed ({problem}); "
            f"game {self.game} begins"
        )

    def _replay(self, saved: Mapping[str, Any]) -> str | None:
        """Why the replay differs from the saved game, if it does."""
        self._begin_game(saved["game"])
        dtype = np.int64 if self.env.action_space.discrete else np.float32
        for count, action in enumerate(saved["actions"], start=1):
            try:
                step = self.advance(np.asarray(action, dtype))
            except EnvironmentFailed as error:
                # Other errors may pass: after them the game can still be replayed exactly.
                if not isinstance(error.__cause__, ValueError):
                    raise
                return f"step {count}: {reason(error.__cause__)}"
            if step.over:
                return f"it was over after {count} of {len(saved['actions'])} steps"
        same = frame_hash(self.frame) == saved["frame"] and self.first == saved["first"]
        return None if same else f"the frame after {len(saved['actions'])} steps differs"


class SerialEnvs:
    """Some of the environments of a `VectorEnv`, stepped one after the other."""

    def __init__(self, spec: EnvSpec, indices: Sequence[int], seed: int, evaluation: bool) -> None:
        self._envs = [
            AutoResetEnv(spec.name, spec.make(evaluation=evaluation), seed, i) for i in indices
        ]
        self._result: Any = None

    def call(self, method: Callable[..., Any], *arguments: Any) -> None:
        """Call a method of this class at once; a `Worker` has the same interface."""
        self._result = method(self, *arguments)

    def result(self, patience: float) -> Any:
        return self._result

    def spaces(self) -> tuple[FrameShape, ActionSpace]:
        return self._envs[0].env.frame_shape, self._envs[0].env.action_space

    def observe(self) -> Observations:
        frames = np.stack([env.frame for env in self._envs])
        return Observations(frames, np.array([env.first for env in self._envs]))

    def step(self, actions: NDArray[Any]) -> tuple[VectorStep, Observations, list[Finished]]:
        pairs = zip(self._envs, actions, strict=True)
        results = [env.step(np.asarray(action)) for env, action in pairs]
        steps = [step for step, _ in results]
        joined = VectorStep(
            np.array([step.reward for step in steps], np.float32),
            np.array([step.terminated for step in steps]),
            np.array([step.truncated for step in steps]),
            np.array([step.over for step in steps]),
        )
        return joined, self.observe(), [game for _, game in results if game is not None]

    def restore(self, saved: Sequence[Mapping[str, Any]]) -> list[str | None]:
        return [env.restore(state) for env, state in zip(self._envs, saved, strict=True)]

    def close(self) -> None:
        for env in self._envs:
            env.close()


def frame_hash(frame: NDArray[np.uint8]) -> str:
    return hashlib.sha256(np.ascontiguousarray(frame).tobytes()).hexdigest()
