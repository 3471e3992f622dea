"""What all environments share: a game is begun, played step by step, and over once."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape

Action = NDArray[Any] | np.generic | int


class Game(ABC):
    """An `Env` made from the two things in which games differ: `begin` and `advance`."""

    best_return: float | None = None
    """The best possible mean return of a game, where it is known."""

    def __init__(
        self, *, frame_shape: FrameShape, action_space: ActionSpace, limit: int | None = None
    ) -> None:
        """`limit` is the number of agent steps after which the game is cut off."""
        self.frame_shape = frame_shape
        self.action_space = action_space
        self._limit = limit
        self._steps = 0
        self._over = True

    @abstractmethod
    def begin(self, seed: int) -> NDArray[Any]:
        """Set up the game of this seed; everything random in it must come from the seed."""

    @abstractmethod
    def advance(self, action: NDArray[Any]) -> EnvStep:
        """Execute an action that was found to be legal."""

    def reset(self, seed: int) -> NDArray[Any]:
        """Begin the game that this seed stands for; returns its first frame."""
        frame = self.begin(seed)
        self._steps, self._over = 0, False
        return frame

    def step(self, action: Action) -> EnvStep:
        """Execute an action; raises when the game is over, until it is reset."""
        if self._over:
            raise RuntimeError("no game is running: call reset before step")
        step = self._cut(self.advance(self._legal(action)))
        self._over = step.over
        return step

    def close(self) -> None:
        """End the running game; games that hold more give it back here."""
        self._over = True

    def _legal(self, action: Action) -> NDArray[Any]:
        array = np.asarray(action)
        expected = () if self.action_space.discrete else (self.action_space.size,)
        if array.shape != expected:
            raise ValueError(f"an action of shape {array.shape}, expected {expected}")
        if self.action_space.discrete and not 0 <= array < self.action_space.size:
            raise ValueError(f"action {array} is none of 0..{self.action_space.size - 1}")
        return array

    def _cut(self, step: EnvStep) -> EnvStep:
        self._steps += 1
        if self._limit is None or self._steps < self._limit or step.over:
            return step
        return replace(step, truncated=not step.terminated, over=True)
