"""Crafter (Hafner, 2022): survival in a world of its own for every game, with 22 achievements."""

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.facts import ACHIEVEMENT
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.game import Game

GAMES = ("reward", "noreward")
LENGTH = 10_000
SMALLEST = 18
"""Nine by nine cells are drawn; in cells of a single pixel there is no room for the numbers."""
PROTOCOLS: Mapping[str, str] = {
    "crafter-1m": f"rewards and endings as the benchmark's, at most {LENGTH} steps",
}


class Crafter(Game):
    """A death terminates an episode, the time limit truncates it. Its last step has achievements.

    The noise of the night is drawn from the game's own generator, so other sizes of frames make
    other games.
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
        """Make the world of the seed, which takes a second."""
        world = self._environment._world
        # The seed that Crafter's reset hands to its world hangs on the games before.
        world.reset = partial(reset_in_order, world, seed)
        return np.ascontiguousarray(self._environment.reset())

    def advance(self, action: NDArray[Any]) -> EnvStep:
        """Execute an action."""
        frame, reward, over, info = self._environment.step(int(action))
        terminated = info["discount"] == 0
        facts = achievements(info) if over else {}
        frame = np.ascontiguousarray(frame)
        return EnvStep(frame, float(reward), terminated, over and not terminated, over, facts)


class OrderedSet(dict[Any, None]):
    """What Crafter asks of a set, in the order in which things were added."""

    def add(self, item: Any) -> None:
        """Put an item last."""
        self[item] = None

    def remove(self, item: Any) -> None:
        """Take an item out."""
        del self[item]


def reset_in_order(world: Any, game_seed: int, seed: object = None) -> None:
    """Empty a world and seed it; creatures are kept in order, so that the seed fixes the game.

    Crafter keeps them in sets, where their order hangs on addresses in memory, and draws from
    them. Only this one world is changed, never the package.
    """
    type(world).reset(world, [game_seed % 2**32, game_seed >> 32])
    world._chunks = defaultdict(OrderedSet)


def achievements(info: Mapping[str, Any]) -> dict[str, float]:
    """How often each of the 22 was achieved in the game so far."""
    return {f"{ACHIEVEMENT}{name}": float(n) for name, n in info["achievements"].items()}


def canonical_game(game: str) -> str:
    """The variant of the benchmark as it is stored: the usual one, with rewards, has no name."""
    plain = game.lower().replace("_", "").replace("-", "")
    if plain not in ("", *GAMES):
        raise unknown("Crafter variant", game, GAMES)
    return plain.removeprefix("reward")
