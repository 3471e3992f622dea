"""What a game calls its actions. A game without names numbers them."""

import contextlib
from collections.abc import Callable, Mapping

from tokenworlds.core.types import ActionSpace
from tokenworlds.envs.atari import rom_path
from tokenworlds.envs.minatar import environment_class

MINATAR = {"n": "NOOP", "l": "LEFT", "u": "UP", "r": "RIGHT", "d": "DOWN", "f": "FIRE"}
MINIGRID = ("LEFT", "RIGHT", "FORWARD", "PICKUP", "DROP", "TOGGLE", "DONE")


def action_names(env: str, space: ActionSpace) -> list[str]:
    """A name for each action, or for each component of a continuous one."""
    family, _, game = env.partition(":")
    if not space.discrete:
        return [f"axis {index + 1}" for index in range(space.size)]
    found: list[str] = []
    if family in NAMES:
        # Names are a comfort: a game that is not installed here can still be dreamed of.
        with contextlib.suppress(ImportError, AttributeError, RuntimeError, ValueError, KeyError):
            found = NAMES[family](game)
    return found if len(found) == space.size else [f"action {i}" for i in range(space.size)]


def atari(game: str) -> list[str]:
    from ale_py import ALEInterface, LoggerMode

    ALEInterface.setLoggerMode(LoggerMode.Error)
    emulator = ALEInterface()
    emulator.loadROM(rom_path(game))
    return [action.name for action in emulator.getMinimalActionSet()]


def minatar(game: str) -> list[str]:
    environment = environment_class()(game)
    letters = environment.env.action_map
    return [MINATAR[letters[index]] for index in environment.minimal_action_set()]


def crafter(game: str) -> list[str]:
    import crafter as package

    return [name.replace("_", " ").upper() for name in package.constants.actions]


NAMES: Mapping[str, Callable[[str], list[str]]] = {
    "toy": lambda game: ["LEFT", "STAY", "RIGHT"] if game == "catch" else [],
    "atari": atari,
    "minatar": minatar,
    "crafter": crafter,
    "minigrid": lambda _: list(MINIGRID),
}
