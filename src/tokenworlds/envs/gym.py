"""Any Gymnasium environment, seen through the pictures it draws of itself."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from tokenworlds.core.errors import UserError, missing_extra, unknown
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.game import Game
from tokenworlds.envs.resize import resize_area

PROTOCOLS: Mapping[str, str] = {
    "gym": "rewards, endings and time limit as the id defines them",
}


class Gym(Game):
    """One Gymnasium id; a termination is an ending, a truncation a truncation.

    Vectors in [-1, 1] are stretched to the bounds of a `Box` of actions.
    """

    def __init__(self, name: str, *, size: int = 64) -> None:
        self._name = name
        self._environment = open_environment(name)
        self._space = self._environment.action_space
        super().__init__(
            frame_shape=FrameShape(size, size), action_space=action_space(name, self._space)
        )
        # An environment that cannot draw itself says so at its first picture.
        self.begin(0)

    def begin(self, seed: int) -> NDArray[Any]:
        """Reset the environment, whose own generator starts anew from the seed."""
        self._environment.reset(seed=seed)
        return self._see()

    def advance(self, action: NDArray[Any]) -> EnvStep:
        """Execute an action in the environment's own units."""
        given = in_own_units(self._space, action)
        _, reward, terminated, truncated, _ = self._environment.step(given)
        terminated, truncated = bool(terminated), bool(truncated) and not terminated
        return EnvStep(
            self._see(), float(reward), terminated, truncated, over=terminated or truncated
        )

    def close(self) -> None:
        """Close the environment and its window."""
        super().close()
        self._environment.close()

    def _see(self) -> NDArray[np.uint8]:
        with naming_what_is_missing(self._name):
            picture = self._environment.render()
        if not isinstance(picture, np.ndarray) or picture.ndim != 3:
            raise UserError(f"gym:{self._name} does not draw itself as an RGB array")
        picture = picture[..., :3].astype(np.uint8, copy=False)
        return resize_area(picture, self.frame_shape.height, self.frame_shape.width)


def open_environment(name: str) -> "gymnasium.Env[Any, Any]":
    """The environment of an id (`CartPole-v1`, or `module:Id-v0` to import a module first)."""
    # Pictures need no screen, and what these packages print has no place on standard output.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if ":" not in name and name not in gymnasium.registry:
        raise unknown("Gymnasium id", name, ids())
    with naming_what_is_missing(name):
        try:
            return gymnasium.make(name, render_mode="rgb_array", disable_env_checker=True)
        except gymnasium.error.UnregisteredEnv as error:
            raise UserError(f"unknown Gymnasium id {name!r}: {error}") from error


@contextlib.contextmanager
def naming_what_is_missing(name: str) -> Iterator[None]:
    """Turns complaints about packages that are not installed into one sentence for the user."""
    try:
        yield
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        if "pygame" in str(error):
            raise missing_extra(f"drawing gym:{name}", "gym") from error
        raise UserError(f"gym:{name} needs a package that is not installed: {error}") from error


def ids() -> list[str]:
    """The ids that Gymnasium itself brings."""
    entries = ((name, str(spec.entry_point)) for name, spec in gymnasium.registry.items())
    return sorted(name for name, entry in entries if entry.startswith("gymnasium.envs"))


def action_space(name: str, space: "spaces.Space[Any]") -> ActionSpace:
    """The space as an agent sees it."""
    if isinstance(space, spaces.Discrete):
        return ActionSpace(int(space.n))
    if isinstance(space, spaces.Box) and space.is_bounded():
        return ActionSpace(int(np.prod(space.shape)), discrete=False)
    raise UserError(f"gym:{name} has actions {space}: choose an id with Discrete or bounded Box")


def in_own_units(space: "spaces.Space[Any]", action: NDArray[Any]) -> Any:
    """An action of an agent as the environment wants it."""
    if isinstance(space, spaces.Discrete):
        return int(space.start) + int(action)
    assert isinstance(space, spaces.Box), space
    share = (action.reshape(space.shape).astype(np.float64) + 1) / 2
    stretched = space.low + share * (space.high.astype(np.float64) - space.low)
    return np.clip(stretched, space.low, space.high).astype(space.dtype)
