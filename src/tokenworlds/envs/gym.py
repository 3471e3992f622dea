"""Any Gymnasium environment: its image observations, or the frames it renders."""

import contextlib
import os
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from numpy.typing import NDArray

from tokenworlds.core.errors import UserError, missing_extra, unknown
from tokenworlds.core.own_modules import import_here
from tokenworlds.core.types import EnvStep, FrameShape
from tokenworlds.envs.actions import action_space, to_native
from tokenworlds.envs.boundary import InvalidValue, check_flag, check_reward, describe_array
from tokenworlds.envs.frames import resize_area
from tokenworlds.envs.game import Family, Game
from tokenworlds.envs.observations import ImageReader
from tokenworlds.envs.options import EnvOptions, split_protocol

STEP_VALUES = "(observation, reward, terminated, truncated, info)"
OBSERVED = "gymnasium"
RENDERED = "gym"
PROTOCOLS = {
    OBSERVED: "image observations; rewards, termination and time limit of the environment",
    RENDERED: "of earlier runs: gymnasium with the option render=true",
}


class Gym(Game):
    """A Gymnasium environment; a step that is terminated and truncated counts as terminated.

    Vectors in [-1, 1] are scaled to the bounds of a `Box` of actions.
    """

    def __init__(
        self,
        environment: "gymnasium.Env[Any, Any]",
        *,
        name: str,
        size: int = 64,
        options: EnvOptions | None = None,
        evaluation: bool = False,
    ) -> None:
        """`name` is the subject of errors; rewards are clipped only outside an evaluation."""
        self._name = name
        self._options = options = options or EnvOptions()
        self.environment = environment
        self._space = environment.action_space
        self._clip = options.clip_rewards and not evaluation
        space = environment.observation_space
        self._read = None if options.render else ImageReader(name, space, options.image_key)
        super().__init__(
            frame_shape=FrameShape(size, size),
            action_space=action_space(name, self._space),
            limit=options.time_limit or None,
        )
        # Fail now, not in the first game, if the environment shows no image.
        self.begin(0)

    def begin(self, seed: int) -> NDArray[Any]:
        result = self.environment.reset(seed=seed)
        if not isinstance(result, tuple) or len(result) != 2:
            raise InvalidValue(f"reset returned {type(result).__name__}, not (observation, info)")
        return self._frame(result[0])

    def advance(self, action: NDArray[Any]) -> EnvStep:
        native, reward = to_native(self._space, action), 0.0
        for _ in range(self._options.frame_skip):
            observation, part, terminated, truncated = self._step(native)
            reward += part
            if terminated or truncated:
                break
        truncated = truncated and not terminated
        reward = min(max(reward, -1.0), 1.0) if self._clip else reward
        frame = self._frame(observation)
        return EnvStep(frame, reward, terminated, truncated, over=terminated or truncated)

    def close(self) -> None:
        super().close()
        self.environment.close()

    def describe_observations(self) -> str:
        if self._read is None:
            return f"render() of {self.environment.observation_space}"
        key = self._options.image_key
        return f"{key}, {self._read.space}" if key else f"{self._read.space}"

    def _step(self, native: Any) -> tuple[Any, float, bool, bool]:
        try:
            result = self.environment.step(native)
        except ValueError as error:
            # A wrapper of Gymnasium could not unpack the four values of old Gym.
            if "values to unpack (expected 5" not in str(error):
                raise
            raise InvalidValue(f"step must return {STEP_VALUES}: {error}") from error
        return read_step(result)

    def _frame(self, observation: Any) -> NDArray[np.uint8]:
        size = self.frame_shape.height
        if self._read is not None:
            return self._read(observation, size)
        with explain_missing_packages(self._name):
            try:
                frame = self.environment.render()
            except NotImplementedError as error:
                raise UserError(f"{self._name} {NO_RENDER}") from error
        return resize_area(rgb(frame), size, size)


NO_RENDER = (
    "does not render: give it a render() that returns an RGB array and the render mode "
    "'rgb_array', or observe an image without the option render"
)


def open_environment(name: str, *, render: bool = False) -> "gymnasium.Env[Any, Any]":
    """The environment of an id (`CartPole-v1`, or `module:Id-v0` to import a module first)."""
    module, _, id_ = name.rpartition(":")
    full = f"gym:{name}"
    with explain_missing_packages(full):
        if module:
            import_own(full, module)
        elif name not in gymnasium.registry:
            raise unknown("Gymnasium id", name, ids())
        if render:
            check_render_modes(full, id_)
        mode: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}
        try:
            return gymnasium.make(id_, disable_env_checker=True, **mode)
        except gymnasium.error.UnregisteredEnv as error:
            raise UserError(f"unknown Gymnasium id {name!r}: {error}") from error


def import_own(name: str, module: str) -> ModuleType:
    """Import a module that the name of an environment names."""
    try:
        return import_here(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise UserError(
            f"{name} names the module {module}, which is not in the current folder and not "
            f"installed"
        ) from error


def check_render_modes(name: str, id_: str) -> None:
    """Raise `UserError` if the class of an id does not render RGB arrays."""
    spec = gymnasium.registry.get(id_)
    if spec is None or spec.entry_point is None:
        return
    entry = spec.entry_point
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    check_render_mode(name, creator)


def check_render_mode(name: str, creator: Any) -> None:
    metadata = getattr(creator, "metadata", None)
    modes = metadata.get("render_modes", []) if isinstance(metadata, Mapping) else ["rgb_array"]
    if "rgb_array" not in modes:
        raise UserError(f"{name} {NO_RENDER}")


def prepare_rendering() -> None:
    """Rendering needs no screen, and pygame must not print to standard output."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


@contextlib.contextmanager
def explain_missing_packages(name: str) -> Iterator[None]:
    """Turn errors about packages that are not installed into a `UserError`."""
    try:
        yield
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        if "pygame" in str(error):
            raise missing_extra(f"rendering {name}", "gym") from error
        raise UserError(f"{name} needs a package that is not installed: {error}") from error


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


def read_step(result: Any) -> tuple[Any, float, bool, bool]:
    """The observation, reward and flags of a step, from what Gymnasium's `step` returns."""
    if not isinstance(result, tuple) or len(result) != 5:
        what = f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__
        raise InvalidValue(f"step returned {what}, not {STEP_VALUES}")
    observation, reward, terminated, truncated, info = result
    if not isinstance(info, Mapping):
        raise InvalidValue(f"info is {reprlib.repr(info)}, not a mapping")
    reward, terminated, truncated = map(as_scalar, (reward, terminated, truncated))
    check_reward(reward)
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        # Older environments count 0 and 1 as flags.
        check_flag(name, bool(flag) if flag in (0, 1) else flag)
    return observation, float(reward), bool(terminated), bool(truncated)


def as_scalar(value: Any) -> Any:
    """The value of an array or tensor of one element; all else as it is."""
    single = getattr(value, "shape", None) in ((), (1,)) and hasattr(value, "item")
    return value.item() if single else value


def ids() -> list[str]:
    """The ids of Gymnasium's own environments."""
    entries = ((name, str(spec.entry_point)) for name, spec in gymnasium.registry.items())
    return sorted(name for name, entry in entries if entry.startswith("gymnasium.envs"))


def options_of(protocol: str) -> EnvOptions:
    """The options of a protocol; `gym` is the name of earlier runs for rendered frames."""
    name, options = split_protocol(protocol)
    return replace(options, render=True) if name == RENDERED else options


def build(game: str, size: int, protocol: str, evaluation: bool) -> Gym:
    prepare_rendering()
    options = options_of(protocol)
    environment = open_environment(game, render=options.render)
    name = f"gym:{game}"
    return Gym(environment, name=name, size=size, options=options, evaluation=evaluation)


FAMILY = Family(
    name="gym",
    about="any Gymnasium id: its image observations, or with render=true its rendered frames",
    examples=("gym:CartPole-v1", "gym:Pendulum-v1", "gym:MountainCarContinuous-v0"),
    protocols=PROTOCOLS,
    canonical=str,
    build=build,
    extra="gym",
    package="pygame",
    has_options=True,
    example_protocol=f"{OBSERVED},render=true",
)
