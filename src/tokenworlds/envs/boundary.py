"""The boundary to environments: their values are checked, and their errors become sentences."""

import contextlib
import math
import os
import reprlib
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tokenworlds.core.errors import UserError
from tokenworlds.core.protocols import Env
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape

FAULTS = (Exception, SystemExit)
"""What an environment may raise. Ctrl-C (KeyboardInterrupt) is not among them."""
UINT8 = np.dtype(np.uint8)
NUMBERS = (float, int, np.floating, np.integer, np.bool_)
LARGEST = float(np.finfo(np.float32).max)
"""Replay stores rewards as float32."""
LIBRARIES = {"tokenworlds", "gymnasium", "numpy", *sys.stdlib_module_names}
"""Packages whose code is not where an environment's author looks first."""


class EnvironmentFailed(UserError):
    """An environment raised an error, returned an invalid value, died or hung.

    `__cause__` is the error of the environment, with its traceback.
    """


def failure(name: str, when: str, error: BaseException) -> EnvironmentFailed:
    """An error of an environment as one sentence."""
    return EnvironmentFailed(f"environment {name} {when}: {reason(error)}")


@contextlib.contextmanager
def naming_failures(name: str, when: str) -> Iterator[None]:
    """Turn errors of an environment into `EnvironmentFailed`; other user errors stay."""
    try:
        yield
    except InvalidValue as error:
        raise failure(name, when, error) from error
    except UserError:
        raise
    except FAULTS as error:
        raise failure(name, when, error) from error


def reason(error: BaseException) -> str:
    """The class, message and place of an error; an own sentence needs only the message."""
    message = " ".join(str(error).split())
    if isinstance(error, UserError):
        return message
    if isinstance(error, SystemExit):
        message = f"it called sys.exit({reprlib.repr(error.code)})"
    if isinstance(error, MemoryError):
        message = f"{message or 'out of memory'}; fewer environments (num_envs) need less"
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"{text}{place(error)}"


def place(error: BaseException) -> str:
    """The innermost line of the environment's own code that an error passed."""
    stack = list(traceback.walk_tb(error.__traceback__))
    if not stack:
        return ""
    modules = [str(frame.f_globals.get("__name__")).partition(".")[0] for frame, _ in stack]
    own = [at for at, module in zip(stack, modules, strict=True) if module not in LIBRARIES]
    frame, line = (own or stack)[-1]
    path = Path(frame.f_code.co_filename)
    here = Path(os.curdir).absolute()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return f" ({shown}, line {line})"


class InvalidValue(UserError):
    """An environment returned a value that is not allowed."""


def check_spaces(env: Env) -> None:
    """Raise `InvalidValue` unless an environment has pixels and actions."""
    shape, actions = env.frame_shape, env.action_space
    if not isinstance(shape, FrameShape) or min(shape.height, shape.width, shape.channels) < 1:
        raise InvalidValue(f"its frame_shape is {shape}: every side must be 1 or more")
    if not isinstance(actions, ActionSpace) or actions.size < 1:
        raise InvalidValue(f"its action_space is {actions}: it must have 1 action or more")


def check_frame(frame: Any, shape: FrameShape) -> None:
    """Raise `InvalidValue` unless this is an array of bytes of the right shape."""
    expected = (shape.height, shape.width, shape.channels)
    if isinstance(frame, np.ndarray) and frame.dtype == UINT8 and frame.shape == expected:
        return
    raise InvalidValue(f"the frame is {describe_array(frame)}, not uint8 of shape {expected}")


def check_step(step: Any, shape: FrameShape) -> None:
    """Raise `InvalidValue` unless this is an `EnvStep` that replay and results can store.

    Called in every step: about a microsecond.
    """
    if not isinstance(step, EnvStep):
        what = f"a tuple of {len(step)}" if isinstance(step, tuple) else reprlib.repr(step)
        raise InvalidValue(f"step returned {what}, not an EnvStep")
    check_frame(step.frame, shape)
    check_reward(step.reward)
    for name in ("terminated", "truncated", "over"):
        check_flag(name, getattr(step, name))
    if type(step.info) is not dict and not isinstance(step.info, Mapping):
        raise InvalidValue(f"info is {reprlib.repr(step.info)}, not a mapping")
    if step.over:
        plain_info(step.info)


def check_reward(reward: Any) -> None:
    if not isinstance(reward, NUMBERS):
        raise InvalidValue(f"the reward is {reprlib.repr(reward)}, not a number")
    # False for NaN as well.
    if not -LARGEST <= reward <= LARGEST:
        raise InvalidValue(f"the reward is {reward}, not a finite float32")


def check_flag(name: str, flag: Any) -> None:
    if flag is not True and flag is not False and not isinstance(flag, np.bool_):
        raise InvalidValue(f"{name} is {reprlib.repr(flag)}, not a bool")


def plain_info(info: Mapping[str, Any]) -> dict[str, float]:
    """The numbers that are stored with a finished game, as JSON can hold them."""
    for name, value in info.items():
        if not isinstance(value, NUMBERS) or not math.isfinite(value):
            raise InvalidValue(f"info[{name!r}] is {reprlib.repr(value)}, not a finite number")
    return {name: float(value) for name, value in info.items()}


def describe_array(value: Any) -> str:
    """The type, shape and range of a value that should be a frame."""
    if not isinstance(value, np.ndarray):
        return reprlib.repr(value) if isinstance(value, (str, type(None))) else type(value).__name__
    text = f"{value.dtype} of shape {value.shape}"
    if value.size and value.dtype.kind in "fiu" and value.dtype != UINT8:
        text += f" with values {value.min():g} to {value.max():g}"
    return text
