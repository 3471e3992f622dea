"""Catch: a ball falls, a paddle must be under it. Every ball can be caught."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenworlds.core.errors import UserError
from tokenworlds.core.seeding import numpy_generator
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.game import Game

CELLS = 8
REACH = 1  # Cells of the paddle on either side of its centre.
BACKGROUND = (14, 14, 24)
BALL = (255, 214, 10)
PADDLE = (30, 144, 255)
CAUGHT = (48, 220, 90)


class Catch(Game):
    """A board of 8 x 8 cells with a paddle three cells wide; the actions are left, stay and right.

    The ball starts in the top row and falls one row per step, so the paddle has seven moves: more
    than the widest gap asks for. A paddle that does not look at the ball is under it in three of
    eight games, whatever it does.
    """

    best_return = 1.0

    def __init__(self, *, size: int = 64) -> None:
        if size % CELLS:
            raise UserError(f"catch is drawn at multiples of {CELLS} pixels: size {size} is none")
        super().__init__(frame_shape=FrameShape(size, size), action_space=ActionSpace(3))
        self._row, self._ball, self._paddle = 0, 0, REACH

    def begin(self, seed: int) -> NDArray[Any]:
        """Place ball and paddle in columns drawn from the seed."""
        generator = numpy_generator(seed, "catch")
        self._row = 0
        self._ball = int(generator.integers(CELLS))
        self._paddle = int(generator.integers(REACH, CELLS - REACH))
        return self._draw()

    def advance(self, action: NDArray[Any]) -> EnvStep:
        """Move the paddle, then let the ball fall."""
        self._paddle = min(max(self._paddle + int(action) - 1, REACH), CELLS - 1 - REACH)
        self._row += 1
        landed = self._row == CELLS - 1
        reward = (1.0 if self._is_under() else -1.0) if landed else 0.0
        return EnvStep(self._draw(), reward, terminated=landed, truncated=False, over=landed)

    def _is_under(self) -> bool:
        return abs(self._ball - self._paddle) <= REACH

    def _draw(self) -> NDArray[np.uint8]:
        board = np.full((CELLS, CELLS, 3), BACKGROUND, np.uint8)
        board[CELLS - 1, self._paddle - REACH : self._paddle + REACH + 1] = PADDLE
        caught = self._row == CELLS - 1 and self._is_under()
        board[self._row, self._ball] = CAUGHT if caught else BALL
        cell = self.frame_shape.height // CELLS
        return board.repeat(cell, axis=0).repeat(cell, axis=1)
