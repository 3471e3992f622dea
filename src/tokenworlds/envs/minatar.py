"""MinAtar (Young and Tian, 2019): miniatures of five Atari games, rendered in colours."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, UInt8
from numpy.typing import NDArray

from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.game import Family, Game, match_name, without_warnings

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
    """Rules of play; `steps` truncates games that a good agent would never lose."""

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
    """One game, each channel in a colour of its own. Freeway's clock truncates its episodes."""

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
        """Make a new object, because MinAtar's own reset keeps the last action."""
        self._environment = self._new_environment()
        self._environment.seed([seed % 2**32, seed >> 32])
        self._environment.reset()
        return self._render()

    def advance(self, action: NDArray[Any]) -> EnvStep:
        reward, over = self._environment.act(self._actions[int(action)])
        over, timed = bool(over), self._game == "freeway"
        return EnvStep(self._render(), float(reward), over and not timed, over and timed, over)

    def _render(self) -> NDArray[np.uint8]:
        return render(self._environment.state(), self.frame_shape.height)

    def _new_environment(self) -> Any:
        return self._environment_class(self._game, sticky_action_prob=self._protocol.sticky)


def render(cells: Bool[np.ndarray, "H W C"], size: int) -> UInt8[np.ndarray, "_ _ 3"]:
    """Average the colours of the channels of each cell; a pixel shows the nearest cell."""
    layers = cells.sum(axis=-1, keepdims=True)
    mixed = cells @ PALETTE[: cells.shape[-1]] // np.maximum(layers, 1)
    board = np.where(layers > 0, mixed, BACKGROUND).astype(np.uint8)
    index = (2 * np.arange(size) + 1) * len(board) // (2 * size)
    return board.take(index, axis=0).take(index, axis=1)


def environment_class() -> Any:
    """MinAtar's `Environment`, imported without its warning about missing plotting packages."""
    with without_warnings():
        from minatar import Environment
    return Environment


def canonical_game(game: str) -> str:
    return match_name("MinAtar game", game, GAMES)


FAMILY = Family(
    name="minatar",
    about="miniatures of five Atari games, rendered in colours",
    examples=tuple(f"minatar:{game}" for game in GAMES),
    protocols={name: str(protocol) for name, protocol in PROTOCOLS.items()},
    canonical=canonical_game,
    build=lambda game, size, protocol, evaluation: MinAtar(
        game, size=size, protocol=PROTOCOLS[protocol]
    ),
    extra="minatar",
    package="minatar",
)
