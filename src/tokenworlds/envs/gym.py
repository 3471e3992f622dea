"""Any Gymnasium environment, observed through the frames it renders."""

import contextlib
import os
import reprlib
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from tokenworlds.core.errors import UserError, missing_extra, unknown
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.boundary import InvalidValue, check_flag, check_reward, describe_array
from tokenworlds.envs.frames import resize_area
from tokenworlds.envs.game import Family, Game

STEP_VALUES = "(observation, reward, terminated, truncated, info)"


class Gym(Game):
    """One Gymnasium id; a step that is terminated and truncated counts as terminated.

    Vectors in [-1, 1] are scaled to the bounds of a `Box` of actions.
    """

    def __init__(self, name: str, *, size: int = 64) -> None:
        self._name = name
        self._environment = open_environment(name)
        self._space = self._environment.action_space
        super().__init__(
            frame_shape=FrameShape(size, size), action_space=action_space(name, self._space)
        )
        # Fail now, not in the first game, if the environment cannot render.
        self.begin(0)

    def begin(self, seed: int) -> NDArray[Any]:
        self._environment.reset(seed=seed)
        return self._render()

    def advance(self, action: NDArray[Any]) -> EnvStep:
        native = to_native(self._space, action)
        try:
            result = self._environment.step(native)
        except ValueError as error:
            # A wrapper of Gymnasium could not unpack the four values of old Gym.
            if "values to unpack (expected 5" not in str(error):
                raise
            raise InvalidValue(f"step must return {STEP_VALUES}: {error}") from error
        reward, terminated, truncated = read_step(result)
        truncated = truncated and not terminated
        return EnvStep(self._render(), reward, terminated, truncated, over=terminated or truncated)

    def close(self) -> None:
        super().close()
        self._environment.close()

    def _render(self) -> NDArray[np.uint8]:
        with explain_missing_packages(self._name):
            frame = self._environment.render()
        return resize_area(rgb(frame), self.frame_shape.height, self.frame_shape.width)


def open_environment(name: str) -> "gymnasium.Env[Any, Any]":
    """The environment of an id (`CartPole-v1`, or `module:Id-v0` to import a module first)."""
    # Rendering needs no screen, and pygame must not print to standard output.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if ":" not in name and name not in gymnasium.registry:
        raise unknown("Gymnasium id", name, ids())
    with explain_missing_packages(name):
        try:
            return gymnasium.make(name, render_mode="rgb_array", disable_env_checker=True)
        except gymnasium.error.UnregisteredEnv as error:
            raise UserError(f"unknown Gymnasium id {name!r}: {error}") from error


@contextlib.contextmanager
def explain_missing_packages(name: str) -> Iterator[None]:
    """Turn errors about packages that are not installed into a `UserError`."""
    try:
        yield
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        if "pygame" in str(error):
            raise missing_extra(f"rendering gym:{name}", "gym") from error
        raise UserError(f"gym:{name} needs a package that is not installed: {error}") from error


def rgb(frame: Any) -> NDArray[np.uint8]:
    """A rendered frame without its alpha channel.

    Only bytes are accepted: floats in 0..1 and in 0..255 cannot be told apart in a dark frame.
    """
    valid = isinstance(frame, np.ndarray) and frame.dtype == np.uint8 and frame.ndim == 3
    if not valid or not frame.size or frame.shape[2] not in (3, 4):
        raise InvalidValue(
            f"it renders {describe_array(frame)}, not an RGB array of uint8 (height, width, 3)"
        )
    pixels: NDArray[np.uint8] = frame[..., :3]
    return pixels


def read_step(result: Any) -> tuple[float, bool, bool]:
    """The reward and the flags of a step, from what Gymnasium's `step` returns."""
    if not isinstance(result, tuple) or len(result) != 5:
        what = f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__
        raise InvalidValue(f"step returned {what}, not {STEP_VALUES}")
    _, reward, terminated, truncated, info = result
    if not isinstance(info, Mapping):
        raise InvalidValue(f"info is {reprlib.repr(info)}, not a mapping")
    reward, terminated, truncated = map(as_scalar, (reward, terminated, truncated))
    check_reward(reward)
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        # Older environments count 0 and 1 as flags.
        check_flag(name, bool(flag) if flag in (0, 1) else flag)
    return float(reward), bool(terminated), bool(truncated)


def as_scalar(value: Any) -> Any:
    """The value of an array or tensor of one element; all else as it is."""
    single = getattr(value, "shape", None) in ((), (1,)) and hasattr(value, "item")
    return value.item() if single else value


def ids() -> list[str]:
    """The ids of Gymnasium's own environments."""
    entries = ((name, str(spec.entry_point)) for name, spec in gymnasium.registry.items())
    return sorted(name for name, entry in entries if entry.startswith("gymnasium.envs"))


def action_space(name: str, space: "spaces.Space[Any]") -> ActionSpace:
    if isinstance(space, spaces.Discrete):
        return ActionSpace(int(space.n))
    if isinstance(space, spaces.Box) and space.is_bounded():
        return ActionSpace(int(np.prod(space.shape)), discrete=False)
    raise UserError(f"gym:{name} has actions {space}: choose an id with Discrete or bounded Box")


def to_native(space: "spaces.Space[Any]", action: NDArray[Any]) -> Any:
    """An agent's action in the units of the environment."""
    if isinstance(space, spaces.Discrete):
        return int(space.start) + int(action)
    assert isinstance(space, spaces.Box), space
    share = (action.reshape(space.shape).astype(np.float64) + 1) / 2
    scaled = space.low + share * (space.high.astype(np.float64) - space.low)
    return np.clip(scaled, space.low, space.high).astype(space.dtype)


FAMILY = Family(
    name="gym",
    about="any Gymnasium id, observed through the frames it renders",
    examples=("gym:CartPole-v1", "gym:Pendulum-v1", "gym:MountainCarContinuous-v0"),
    protocols={"gym": "rewards, termination and time limit as the id defines them"},
    canonical=str,
    build=lambda game, size, protocol, evaluation: Gym(game, size=size),
    extra="gym",
    package="pygame",
)
