"""Steer: a dot is to be steered onto a target by a velocity in two dimensions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenworlds.core.seeding import numpy_generator
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.game import Game

STEPS = 32
SPEED = 0.1
GAP = 1.0
REACH = 0.1
EDGE = 0.85
DOT_RADIUS = 0.13
TARGET_RADIUS = 0.22
BACKGROUND = (14, 14, 24)
DOT = (80, 240, 255)
TARGET = (255, 70, 120)


class Steer(Game):
    """The plane is [-1, 1] x [-1, 1], x to the right and y downwards; an action is a velocity.

    The reward is the headway made towards the target, in units of the speed. Each game begins at
    the same gap of ten units, and the gap is closed within `REACH` of the target's centre, so
    that a game in which the dot arrives and stays returns exactly 10, one in which it goes
    nowhere 0. There is no ending: after 32 steps the game is cut off.
    """

    best_return = GAP / SPEED

    def __init__(self, *, size: int = 64) -> None:
        super().__init__(
            frame_shape=FrameShape(size, size),
            action_space=ActionSpace(2, discrete=False),
            limit=STEPS,
        )
        self._dot = self._target = np.zeros(2)
        centres = (np.arange(size) + 0.5) * 2 / size - 1
        self._plane = np.stack(np.meshgrid(centres, centres), axis=-1)

    def begin(self, seed: int) -> NDArray[Any]:
        """Place dot and target at the same distance in every game."""
        generator = numpy_generator(seed, "steer")
        while True:
            self._dot = generator.uniform(-EDGE, EDGE, 2)
            angle = generator.uniform(0, 2 * np.pi)
            self._target = self._dot + (GAP + REACH) * np.array([np.cos(angle), np.sin(angle)])
            if np.abs(self._target).max() <= EDGE:
                return self._draw()

    def advance(self, action: NDArray[Any]) -> EnvStep:
        """Move the dot; walls stop it."""
        before = self._gap()
        self._dot = np.clip(self._dot + SPEED * action.astype(np.float64), -EDGE, EDGE)
        reward = (before - self._gap()) / SPEED
        return EnvStep(self._draw(), reward, ending=False, cutoff=False, over=False)

    def _gap(self) -> float:
        return max(0.0, _distance(self._dot - self._target).item() - REACH)

    def _draw(self) -> NDArray[np.uint8]:
        frame = np.full((*self._plane.shape[:2], 3), BACKGROUND, np.float64)
        frame = self._disc(frame, self._target, TARGET_RADIUS, TARGET)
        frame = self._disc(frame, self._dot, DOT_RADIUS, DOT)
        return np.rint(frame).astype(np.uint8)

    def _disc(
        self,
        frame: NDArray[np.float64],
        centre: NDArray[np.float64],
        radius: float,
        colour: tuple[int, int, int],
    ) -> NDArray[np.float64]:
        """The frame with a disc on it, smooth at the rim so that small moves can be seen."""
        pixel = 2 / self.frame_shape.height
        cover = np.clip((radius - _distance(self._plane - centre)) / pixel + 0.5, 0, 1)[..., None]
        return frame + cover * (np.array(colour) - frame)


def _distance(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    # Not np.hypot: a square root is rounded alike on every machine.
    return np.asarray(np.sqrt(vector[..., 0] ** 2 + vector[..., 1] ** 2))
