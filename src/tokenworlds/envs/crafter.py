"""Crafter (Hafner, 2022): survival in a procedurally generated world, with 22 achievements."""

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenworlds.core.achievements import ACHIEVEMENT
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.game import Family, Game, match_name

GAMES = ("reward", "noreward")
LENGTH = 10_000
SMALLEST = 18
"""Crafter renders nine by nine cells; cells of one pixel have no room for the numbers."""


class Crafter(Game):
    """Death terminates an episode, the time limit truncates it; the last step has achievements.

    Crafter renders the noise of the night with the random generator of the game, so frames of
    another size make another game.
    """

    def __init__(self, game: str = "", *, size: int = 64, length: int = LENGTH) -> None:
        if size < SMALLEST:
            raise UserError(f"crafter frames of size {size}: choose {SMALLEST} or more")
        from crafter import Env

        rewarding = canonical_game(game) == ""
        self._environment = Env(size=(size, size), length=length, reward=rewarding, seed=0)
        actions = len(self._environment.action_names)
        super().__init__(frame_shape=FrameShape(size, size), action_space=ActionSpace(actions))

    def begin(self, seed: int) -> NDArray[Any]:
        """Generate the world of the seed, which takes a second."""
        world = self._environment._world
        # Crafter's own reset passes its world a seed that depends on earlier games.
        world.reset = partial(reset_in_order, world, seed)
        return np.ascontiguousarray(self._environment.reset())

    def advance(self, action: NDArray[Any]) -> EnvStep:
        frame, reward, over, info = self._environment.step(int(action))
        terminated = info["discount"] == 0
        counts = achievements(info) if over else {}
        frame = np.ascontiguousarray(frame)
        return EnvStep(frame, float(reward), terminated, over and not terminated, over, counts)


class OrderedSet(dict[Any, None]):
    """The methods of a set that Crafter uses, with items in insertion order."""

    def add(self, item: Any) -> None:
        self[item] = None

    def remove(self, item: Any) -> None:
        del self[item]


def reset_in_order(world: Any, game_seed: int, seed: object = None) -> None:
    """Empty and seed a world whose creatures keep their order, so that the seed fixes the game.

    Crafter samples creatures from sets, whose order depends on memory addresses. This changes
    one world object, not the package.
    """
    type(world).reset(world, [game_seed % 2**32, game_seed >> 32])
    world._chunks = defaultdict(OrderedSet)


def achievements(info: Mapping[str, Any]) -> dict[str, float]:
    """How often each of the 22 was unlocked in the game so far."""
    return {f"{ACHIEVEMENT}{name}": float(n) for name, n in info["achievements"].items()}


def canonical_game(game: str) -> str:
    """The variant of the benchmark as stored: empty for the usual one, with rewards."""
    return match_name("Crafter variant", game, GAMES, {"": ""}).removeprefix("reward")


FAMILY = Family(
    name="crafter",
    about="survival and 22 achievements in a new world every game, with or without rewards",
    examples=("crafter", "crafter:noreward"),
    protocols={"crafter-1m": f"rewards and deaths of the benchmark, at most {LENGTH} steps"},
    canonical=canonical_game,
    build=lambda game, size, protocol, evaluation: Crafter(game, size=size),
    extra="crafter",
    package="crafter",
    short_names={"crafter": ""},
)
