"""Environments: each plays one game after the other and can say how its running game came about."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt8
from numpy.typing import NDArray

from tokenworlds.core.protocols import Env
from tokenworlds.core.seeding import derive
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.spec import EnvSpec


@dataclass(frozen=True, slots=True)
class Finished:
    """A whole game that was played: its stream, its place there, its return and agent steps.

    `facts` are what else the game tells of itself, by name.
    """

    stream: int
    game: int
    score: float
    length: int
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sight:
    """What is in front of the agent in every stream."""

    frames: UInt8[np.ndarray, "N H W C"]
    first: Bool[np.ndarray, " N"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of the actions in every stream."""

    reward: Float[np.ndarray, " N"]
    terminated: Bool[np.ndarray, " N"]
    truncated: Bool[np.ndarray, " N"]
    over: Bool[np.ndarray, " N"]


class Stream:
    """One environment; its games are numbered, and their seeds follow from the numbers."""

    def __init__(self, env: Env, seed: int, number: int) -> None:
        self.env = env
        self.number = number
        self._seed = seed
        self._begin(0)

    def _begin(self, game: int) -> None:
        seed = derive(self._seed, "env", self.number, game)
        self.frame: NDArray[np.uint8] = self.env.reset(seed)
        self.first = True
        self._game, self._score = game, 0.0
        self._actions: list[Any] = []

    def step(self, action: NDArray[Any]) -> tuple[EnvStep, Finished | None]:
        """Execute an action; a game that is over is followed by the next at once."""
        step = self._advance(action)
        if not step.over:
            return step, None
        length = len(self._actions)
        finished = Finished(self.number, self._game, self._score, length, step.facts)
        self._begin(self._game + 1)
        return step, finished

    def _advance(self, action: NDArray[Any]) -> EnvStep:
        step = self.env.step(action)
        self._actions.append(action.tolist())
        self._score += step.reward
        self.frame, self.first = step.frame, step.terminated or step.truncated
        return step

    def state(self) -> dict[str, Any]:
        """How the running game came about, and what it should look like now."""
        return {
            "game": self._game,
            "actions": list(self._actions),
            "frame": fingerprint(self.frame),
            "first": self.first,
        }

    def restore(self, saved: Mapping[str, Any]) -> str | None:
        """Replay the saved game; if that fails, begin the next and say so."""
        failure = self._replay(saved)
        if failure is None:
            return None
        self._begin(saved["game"] + 1)
        return (
            f"stream {self.number}: game {saved['game']} could not be replayed ({failure}); "
            f"game {self._game} begins"
        )

    def _replay(self, saved: Mapping[str, Any]) -> str | None:
        """Why the game did not come out as saved, if so."""
        self._begin(saved["game"])
        dtype = np.int64 if self.env.action_space.discrete else np.float32
        for count, action in enumerate(saved["actions"], start=1):
            try:
                step = self._advance(np.asarray(action, dtype))
            except ValueError as error:
                return f"step {count}: {error}"
            if step.over:
                return f"it was over after {count} of {len(saved['actions'])} steps"
        same = fingerprint(self.frame) == saved["frame"] and self.first == saved["first"]
        return None if same else f"the frame after {len(saved['actions'])} steps differs"


class Streams:
    """Some of the environments of a vector environment, stepped one after the other."""

    def __init__(self, spec: EnvSpec, numbers: Sequence[int], seed: int, evaluation: bool) -> None:
        self._streams = [Stream(spec.make(evaluation=evaluation), seed, n) for n in numbers]

    def spaces(self) -> tuple[FrameShape, ActionSpace]:
        """The facts that all of them share."""
        return self._streams[0].env.frame_shape, self._streams[0].env.action_space

    def look(self) -> Sight:
        """What is in front of the agent."""
        return Sight(
            np.stack([stream.frame for stream in self._streams]),
            np.array([stream.first for stream in self._streams]),
        )

    def step(self, actions: NDArray[Any]) -> tuple[Outcome, Sight, list[Finished]]:
        """Execute an action in each."""
        pairs = zip(self._streams, actions, strict=True)
        results = [stream.step(np.asarray(action)) for stream, action in pairs]
        steps = [step for step, _ in results]
        outcome = Outcome(
            np.array([step.reward for step in steps], np.float32),
            np.array([step.terminated for step in steps]),
            np.array([step.truncated for step in steps]),
            np.array([step.over for step in steps]),
        )
        return outcome, self.look(), [game for _, game in results if game is not None]

    def state(self) -> list[dict[str, Any]]:
        """The running game of each."""
        return [stream.state() for stream in self._streams]

    def restore(self, saved: Sequence[Mapping[str, Any]]) -> list[str | None]:
        """Replay the running games; a complaint for each that came out otherwise."""
        pairs = zip(self._streams, saved, strict=True)
        return [stream.restore(state) for stream, state in pairs]

    def close(self) -> None:
        """Close the environments."""
        for stream in self._streams:
            stream.env.close()


def fingerprint(frame: NDArray[np.uint8]) -> str:
    """SHA-256 of a frame's pixels."""
    return hashlib.sha256(np.ascontiguousarray(frame).tobytes()).hexdigest()
