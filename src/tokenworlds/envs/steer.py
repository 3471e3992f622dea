"""Steer: a dot on a track is to be steered over a target on another, by its velocity."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenworlds.core.seeding import numpy_generator
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.game import Game

STEPS = 16
SPEED = 0.2
GAP = 1.0
REACH = 0.2
EDGE = 0.85
DOT_RADIUS = 0.15
TARGET_RADIUS = 0.22
DOT_HEIGHT = -0.375
TARGET_HEIGHT = 0.375
BACKGROUND = (14, 14, 24)
DOT = (80, 240, 255)
TARGET = (255, 70, 120)


class Steer(Game):
    """Both move along x in [-1, 1], the dot above the target; an action is a velocity.

    The reward is the headway made towards the target, in units of the speed. Each game begins at
    the same gap of five units, and the gap is closed within `REACH` of the target's centre, so
    that a game in which the dot arrives and stays returns exactly 5, one in which it goes
    nowhere 0. There is no ending: after 16 steps the game is cut off.
    """

    best_return = GAP / SPEED

    def __init__(self, *, size: int = 64) -> None:
        super().__init__(
            frame_shape=FrameShape(size, size),
            action_space=ActionSpace(1, discrete=False),
            limit=STEPS,
        )
        self._dot = self._target = 0.0
        centres = (np.arange(size) + 0.5) * 2 / size - 1
        self._plane = np.stack(np.meshgrid(centres, centres), axis=-1)

    def begin(self, seed: int) -> NDArray[Any]:
        """Place dot and target at the same distance in every game."""
        generator = numpy_generator(seed, "steer")
        room = EDGE - GAP - REACH
        side = generator.choice([-1.0, 1.0])
        self._dot = side * generator.uniform(-EDGE, room)
        self._target = self._dot + side * (GAP + REACH)
        return self._draw()

    def advance(self, action: NDArray[Any]) -> EnvStep:
        """Move the dot; walls stop it."""
        before, velocity = self._gap(), float(np.clip(action[0], -1, 1))
        self._dot = float(np.clip(self._dot + SPEED * velocity, -EDGE, EDGE))
        reward = (before - self._gap()) / SPEED
        return EnvStep(self._draw(), reward, terminated=False, truncated=False, over=False)

    def _gap(self) -> float:
        return max(0.0, abs(self._dot - self._target) - REACH)

    def _draw(self) -> NDArray[np.uint8]:
        frame = np.full((*self._plane.shape[:2], 3), BACKGROUND, np.float64)
        frame = self._disc(frame, (self._target, TARGET_HEIGHT), TARGET_RADIUS, TARGET)
        frame = self._disc(frame, (self._dot, DOT_HEIGHT), DOT_RADIUS, DOT)
        return np.rint(frame).astype(np.uint8)

    def _disc(
        self,
        frame: NDArray[np.float64],
        centre: tuple[float, float],
        radius: float,
        colour: tuple[int, int, int],
    ) -> NDArray[np.float64]:
        """The frame with a disc on it, smooth at the rim so that small moves can be seen."""
        pixel = 2 / self.frame_shape.height
        cover = np.clip((radius - _distance(self._plane - np.array(centre))) / pixel + 0.5, 0, 1)[
            ..., None
        ]
        return frame + cover * (np.array(colour) - frame)


def _distance(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    # Not np.hypot: a square root is rounded alike on every machine.
    return np.asarray(np.sqrt(vector[..., 0] ** 2 + vector[..., 1] ** 2))
