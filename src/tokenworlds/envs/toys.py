"""Two games that a laptop learns in minutes: catch (three actions) and steer (one velocity)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.seeding import numpy_generator
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.game import Family, Game

BACKGROUND = (14, 14, 24)

CELLS = 8
PADDLE_REACH = 1  # Cells of the paddle on either side of its centre.
BALL = (255, 214, 10)
PADDLE = (30, 144, 255)
CAUGHT = (48, 220, 90)

STEPS = 16
SPEED = 0.2
GAP = 1.0
TARGET_REACH = 0.2  # The dot is at the target within this distance of its centre.
EDGE = 0.85
DOT_RADIUS = 0.15
TARGET_RADIUS = 0.22
DOT_HEIGHT = -0.375
TARGET_HEIGHT = 0.375
DOT = (80, 240, 255)
TARGET = (255, 70, 120)


class Catch(Game):
    """A ball falls on a board of 8 x 8 cells; a paddle three cells wide must be under it.

    The actions are left, stay and right. The ball falls one row per step, so the paddle has seven
    moves: more than the widest gap needs. Any policy that ignores the ball catches it in three of
    eight games.
    """

    best_return = 1.0

    def __init__(self, *, size: int = 64) -> None:
        if size % CELLS:
            raise UserError(f"catch frames of size {size}: choose a multiple of {CELLS}")
        super().__init__(frame_shape=FrameShape(size, size), action_space=ActionSpace(3))
        self._row, self._ball, self._paddle = 0, 0, PADDLE_REACH

    def begin(self, seed: int) -> NDArray[Any]:
        generator = numpy_generator(seed, "catch")
        self._row = 0
        self._ball = int(generator.integers(CELLS))
        self._paddle = int(generator.integers(PADDLE_REACH, CELLS - PADDLE_REACH))
        return self._render()

    def advance(self, action: NDArray[Any]) -> EnvStep:
        paddle = self._paddle + int(action) - 1
        self._paddle = min(max(paddle, PADDLE_REACH), CELLS - 1 - PADDLE_REACH)
        self._row += 1
        landed = self._row == CELLS - 1
        reward = (1.0 if self._is_under() else -1.0) if landed else 0.0
        return EnvStep(self._render(), reward, terminated=landed, truncated=False, over=landed)

    def _is_under(self) -> bool:
        return abs(self._ball - self._paddle) <= PADDLE_REACH

    def _render(self) -> NDArray[np.uint8]:
        board = np.full((CELLS, CELLS, 3), BACKGROUND, np.uint8)
        board[CELLS - 1, self._paddle - PADDLE_REACH : self._paddle + PADDLE_REACH + 1] = PADDLE
        caught = self._row == CELLS - 1 and self._is_under()
        board[self._row, self._ball] = CAUGHT if caught else BALL
        cell = self.frame_shape.height // CELLS
        return board.repeat(cell, axis=0).repeat(cell, axis=1)


class Steer(Game):
    """A dot is steered along x in [-1, 1] to a target on the track below; an action is a velocity.

    The reward is the decrease of the gap to the target, in units of the speed. Each game begins
    with a gap of five units, which is closed within `TARGET_REACH` of the target's centre. A game
    in which the dot arrives and stays returns exactly 5, one in which it stands still 0. No step
    is terminated; the game is truncated after 16 steps.
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
        generator = numpy_generator(seed, "steer")
        side = generator.choice([-1.0, 1.0])
        self._dot = side * generator.uniform(-EDGE, EDGE - GAP - TARGET_REACH)
        self._target = self._dot + side * (GAP + TARGET_REACH)
        return self._render()

    def advance(self, action: NDArray[Any]) -> EnvStep:
        before, velocity = self._gap(), float(np.clip(action[0], -1, 1))
        self._dot = float(np.clip(self._dot + SPEED * velocity, -EDGE, EDGE))
        reward = (before - self._gap()) / SPEED
        return EnvStep(self._render(), reward, terminated=False, truncated=False, over=False)

    def _gap(self) -> float:
        return max(0.0, abs(self._dot - self._target) - TARGET_REACH)

    def _render(self) -> NDArray[np.uint8]:
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
        """The frame with a disc on it, anti-aliased so that small moves are visible."""
        pixel = 2 / self.frame_shape.height
        cover = np.clip((radius - _distance(self._plane - np.array(centre))) / pixel + 0.5, 0, 1)[
            ..., None
        ]
        return frame + cover * (np.array(colour) - frame)


def _distance(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    # Not np.hypot: every machine rounds a square root in the same way.
    return np.asarray(np.sqrt(vector[..., 0] ** 2 + vector[..., 1] ** 2))


TOYS: dict[str, type[Catch] | type[Steer]] = {"catch": Catch, "steer": Steer}


def canonical_toy(game: str) -> str:
    if game not in TOYS:
        raise unknown("toy", game, TOYS)
    return game


FAMILY = Family(
    name="toy",
    about="small games that a laptop learns in minutes",
    examples=tuple(f"toy:{toy}" for toy in TOYS),
    protocols={"toy": f"the rules of the game; steer is truncated after {STEPS} steps"},
    canonical=canonical_toy,
    build=lambda game, size, protocol, evaluation: TOYS[game](size=size),
    short_names={toy: toy for toy in TOYS},
    best_returns={name: toy.best_return for name, toy in TOYS.items()},
)
