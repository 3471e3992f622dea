"""Many environments at once, in this process or in worker processes.

Each environment always shows a frame: when a game is over, the next one begins in the same step.
The seed of a game follows from the seed of the `VectorEnv`, the index of the environment and the
number of the game. The trajectories do not depend on the number of workers.
"""

import contextlib
import hashlib
import itertools
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt8
from numpy.typing import NDArray

from tokenworlds.core.errors import UserError
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

__all__ = ["EnvironmentFailed", "Finished", "Observations", "VectorEnv", "VectorStep"]

STOP = None
DISCONNECTED = (EOFError, BrokenPipeError, ConnectionResetError)
CLOSING_SECONDS = 5.0
"""How long a worker may take to close its environments."""


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
    ) -> None:
        """With 0 workers the environments run in this process, one after the other."""
        self._parts = np.array_split(np.arange(num_envs), max(1, min(workers, num_envs)))
        kind = Worker if workers else SerialEnvs
        self._workers = [kind(spec, part.tolist(), seed, evaluation) for part in self._parts]
        self._finished: list[Finished] = []
        self._restarted = np.zeros(num_envs, bool)
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
        """Execute one action in each environment; begin the next game where one is over."""
        if len(actions) != len(self):
            raise ValueError(f"{len(actions)} actions for {len(self)} environments")
        results = self._call(SerialEnvs.step, [actions[part] for part in self._parts])
        steps, observations, finished = zip(*results, strict=True)
        self._now = _join_observations(observations)
        self._finished += itertools.chain.from_iterable(finished)
        self._restarted = np.zeros(len(self), bool)
        return VectorStep(*map(np.concatenate, zip(*steps, strict=True)))

    def finished(self) -> list[Finished]:
        """The games that finished since the last call."""
        games, self._finished = self._finished, []
        return games

    def state(self) -> dict[str, Any]:
        """All that `restore` needs, as JSON; running games are stored as their actions."""
        envs = itertools.chain.from_iterable(self._call(SerialEnvs.state))
        return {"envs": list(envs), "finished": [asdict(game) for game in self._finished]}

    def restore(self, state: Mapping[str, Any]) -> list[str]:
        """Replay the running games of a saved state; returns one warning for each that failed.

        Where a replay does not reach the saved frame, the next game begins.
        """
        saved = state["envs"]
        if len(saved) != len(self):
            raise ValueError(f"a state of {len(saved)} environments for {len(self)} environments")
        parts = [[saved[env] for env in part] for part in self._parts]
        results = self._call(SerialEnvs.restore, parts)
        warnings = list(itertools.chain.from_iterable(results))
        self._finished = [Finished(**game) for game in state["finished"]]
        self._restarted = np.array([warning is not None for warning in warnings])
        self._now = _join_observations(self._call(SerialEnvs.observe))
        return [warning for warning in warnings if warning is not None]

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers = []

    def __enter__(self) -> "VectorEnv":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _call(self, method: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        """The results of all workers, which run at the same time; one argument for each."""
        if not self._workers:
            raise RuntimeError("these environments are closed")
        try:
            for index, worker in enumerate(self._workers):
                worker.call(method, *(given[index] for given in arguments))
            return [worker.result() for worker in self._workers]
        except BaseException:
            # Some environments may have made a step that others have not, and results that were
            # not read would be taken for those of the next call.
            self.close()
            raise


def _join_observations(parts: Iterable[Observations]) -> Observations:
    return Observations(*map(np.concatenate, zip(*parts, strict=True)))


class AutoResetEnv:
    """One environment that begins its next game when one is over, and can replay a saved game.

    All values of the environment are checked here, and all of its errors become
    `EnvironmentFailed`.
    """

    def __init__(self, name: str, env: Env, seed: int, index: int) -> None:
        self.name = name
        self.env = env
        self.index = index
        self._seed = seed
        self._begin(0)

    def _begin(self, game: int) -> None:
        seed = derive(self._seed, "env", self.index, game)
        try:
            frame = self.env.reset(seed)
            check_frame(frame, self.env.frame_shape)
        except FAULTS as error:
            raise failure(self.name, f"failed at the start of game {game}", error) from error
        self._show(frame, True)
        self._game, self._score = game, 0.0
        self._actions: list[Any] = []

    def step(self, action: NDArray[Any]) -> tuple[EnvStep, Finished | None]:
        step = self._advance(action)
        if not step.over:
            return step, None
        length, info = len(self._actions), plain_info(step.info)
        finished = Finished(self.index, self._game, self._score, length, info)
        self._begin(self._game + 1)
        return step, finished

    def _advance(self, action: NDArray[Any]) -> EnvStep:
        try:
            step = self.env.step(action)
            check_step(step, self.env.frame_shape)
        except FAULTS as error:
            when = f"failed at step {len(self._actions) + 1} of game {self._game}"
            raise failure(self.name, when, error) from error
        self._actions.append(action.tolist())
        self._score += float(step.reward)
        self._show(step.frame, bool(step.terminated or step.truncated))
        return step

    def _show(self, frame: NDArray[np.uint8], first: bool) -> None:
        # A copy, because the environment may draw its next frame into the same array.
        self.frame, self.first = np.array(frame), first

    def state(self) -> dict[str, Any]:
        """The actions of the running game, and a hash of the frame they led to."""
        return {
            "game": self._game,
            "actions": list(self._actions),
            "frame": frame_hash(self.frame),
            "first": self.first,
        }

    def restore(self, saved: Mapping[str, Any]) -> str | None:
        """Replay the saved game; if that fails, begin the next one and return a warning."""
        problem = self._replay(saved)
        if problem is None:
            return None
        self._begin(saved["game"] + 1)
        return (
            f"environment {self.index}: game {saved['game']} could not be replayed ({problem}); "
            f"game {self._game} begins"
        )

    def _replay(self, saved: Mapping[str, Any]) -> str | None:
        """Why the replay differs from the saved game, if it does."""
        self._begin(saved["game"])
        dtype = np.int64 if self.env.action_space.discrete else np.float32
        for count, action in enumerate(saved["actions"], start=1):
            try:
                step = self._advance(np.asarray(action, dtype))
            except EnvironmentFailed as error:
                return f"step {count}: {reason(error.__cause__ or error)}"
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

    def result(self) -> Any:
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

    def state(self) -> list[dict[str, Any]]:
        return [env.state() for env in self._envs]

    def restore(self, saved: Sequence[Mapping[str, Any]]) -> list[str | None]:
        return [env.restore(state) for env, state in zip(self._envs, saved, strict=True)]

    def close(self) -> None:
        for env in self._envs:
            env.env.close()


class WorkerError(RuntimeError):
    """A worker process failed; the message holds its traceback or its exit code."""


class Worker:
    """Environments in a child process, which exits when this process does."""

    def __init__(self, spec: EnvSpec, indices: Sequence[int], seed: int, evaluation: bool) -> None:
        self._name = f"the worker of environments {indices[0]} to {indices[-1]}"
        # Spawned: a fork would copy the locks of torch's threads in an unknown state.
        context = multiprocessing.get_context("spawn")
        self._pipe, far_end = context.Pipe()
        arguments = (far_end, spec, tuple(indices), seed, evaluation)
        self._process = context.Process(target=serve, args=arguments, daemon=True)
        self._process.start()
        # Only the worker holds its end, so that each side notices when the other exits.
        far_end.close()

    def call(self, method: Callable[..., Any], *arguments: Any) -> None:
        """Start a call of a method of `SerialEnvs`."""
        # The error of a worker that died may still be in the pipe, where `result` reads it.
        with contextlib.suppress(*DISCONNECTED):
            self._pipe.send((method, arguments))

    def result(self) -> Any:
        """Wait for the call; return its result or raise its error."""
        try:
            value, error = self._pipe.recv()
        except DISCONNECTED as disconnected:
            self._process.join(CLOSING_SECONDS)
            code = self._process.exitcode
            raise WorkerError(f"{self._name} died (exit code {code})") from disconnected
        if isinstance(error, UserError):
            raise error
        if error is not None:
            raise WorkerError(f"{self._name} failed:\n{error}")
        return value

    def close(self) -> None:
        """Let the worker close its environments; kill it if that takes too long."""
        with contextlib.suppress(*DISCONNECTED):
            self._pipe.send(STOP)
        self._pipe.close()
        self._process.join(CLOSING_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def serve(
    pipe: Connection, spec: EnvSpec, indices: Sequence[int], seed: int, evaluation: bool
) -> None:
    """Run the calls of a `Worker` until it stops or its process exits."""
    # Ctrl-C reaches all processes of a terminal; only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        envs = SerialEnvs(spec, indices, seed, evaluation)
        while (request := pipe.recv()) is not STOP:
            method, arguments = request
            pipe.send((method(envs, *arguments), None))
        envs.close()
    except DISCONNECTED:
        return
    except UserError as error:
        pipe.send((None, error))
    except Exception:
        pipe.send((None, traceback.format_exc()))


def frame_hash(frame: NDArray[np.uint8]) -> str:
    return hashlib.sha256(np.ascontiguousarray(frame).tobytes()).hexdigest()
