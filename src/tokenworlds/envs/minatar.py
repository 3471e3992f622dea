"""MinAtar (Young and Tian, 2019): five small games, drawn in colours."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, UInt8
from numpy.typing import NDArray

from tokenworlds.core.errors import unknown
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.game import Game

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
BACKGROUND = (14, 14, 24)
PALETTE = np.array(
    [
        (255, 255, 255),
        (255, 70, 60),
        (255, 190, 20),
        (40, 210, 90),
        (40, 140, 255),
        (200, 80, 255),
        (20, 220, 220),
        (255, 120, 190),
        (150, 110, 60),
        (170, 255, 60),
    ]
)


@dataclass(frozen=True, kw_only=True, slots=True)
class MinAtarProtocol:
    """How a game is played; `steps` bounds games that a good agent would never end."""

    sticky: float = 0.0
    steps: int = 10_000

    def __str__(self) -> str:
        sticky = f"sticky actions {self.sticky}" if self.sticky else "no sticky actions"
        return f"{sticky}, at most {self.steps} steps, minimal action set"


PROTOCOLS: Mapping[str, MinAtarProtocol] = {
    "minatar": MinAtarProtocol(),
    "minatar-sticky": MinAtarProtocol(sticky=0.1),
}


class MinAtar(Game):
    """One game, each channel drawn in a colour. Freeway's clock truncates its episodes."""

    def __init__(
        self, game: str, *, size: int = 64, protocol: MinAtarProtocol = PROTOCOLS["minatar"]
    ) -> None:
        self._game = canonical_game(game)
        self._protocol = protocol
        self._environment_class = environment_class()
        self._environment = self._new_environment()
        self._actions = self._environment.minimal_action_set()
        super().__init__(
            frame_shape=FrameShape(size, size),
            action_space=ActionSpace(len(self._actions)),
            limit=protocol.steps,
        )

    def begin(self, seed: int) -> NDArray[Any]:
        """Start from a new object, since MinAtar's own reset keeps the last action."""
        self._environment = self._new_environment()
        self._environment.seed([seed % 2**32, seed >> 32])
        self._environment.reset()
        return self._see()

    def advance(self, action: NDArray[Any]) -> EnvStep:
        """Execute one of the game's minimal actions."""
        reward, over = self._environment.act(self._actions[int(action)])
        timed = self._game == "freeway"
        terminated, truncated = bool(over) and not timed, bool(over) and timed
        return EnvStep(self._see(), float(reward), terminated, truncated, bool(over))

    def _see(self) -> NDArray[np.uint8]:
        return draw(self._environment.state(), self.frame_shape.height)

    def _new_environment(self) -> Any:
        return self._environment_class(self._game, sticky_action_prob=self._protocol.sticky)


def draw(cells: Bool[np.ndarray, "H W C"], size: int) -> UInt8[np.ndarray, "_ _ 3"]:
    """Each channel in its colour, channels in one cell mixed evenly; nearest cell to each pixel."""
    layers = cells.sum(axis=-1, keepdims=True)
    mixed = cells @ PALETTE[: cells.shape[-1]] // np.maximum(layers, 1)
    board = np.where(layers > 0, mixed, BACKGROUND).astype(np.uint8)
    index = (2 * np.arange(size) + 1) * len(board) // (2 * size)
    return board.take(index, axis=0).take(index, axis=1)


def environment_class() -> Any:
    """MinAtar's wrapper; its lament about missing plotting packages is not passed on."""
    root, silence = logging.getLogger(), logging.NullHandler()
    disabled = root.manager.disable
    # Without a handler the lament would set up logging for the whole process.
    root.addHandler(silence)
    logging.disable(logging.WARNING)
    try:
        from minatar import Environment
    finally:
        logging.disable(disabled)
        root.removeHandler(silence)
    return Environment


def canonical_game(game: str) -> str:
    """The game's name as MinAtar writes it, from any spelling in upper or lower case."""
    spellings = {name.replace("_", ""): name for name in GAMES}
    plain = game.lower().replace("_", "").replace("-", "")
    if plain not in spellings:
        raise unknown("MinAtar game", game, GAMES)
    return spellings[plain]
