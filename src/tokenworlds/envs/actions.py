"""Action spaces of Gymnasium as those of an agent: one index, or a vector in [-1, 1]."""

import math
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace

MOST_ACTIONS = 1024
"""A product of several choices is one choice among at most so many combinations."""
SUPPORTED = "Discrete, MultiDiscrete, MultiBinary or a bounded Box"


def action_space(name: str, space: "spaces.Space[Any]") -> ActionSpace:
    """The agent's actions; each combination of several choices is an action of its own."""
    if isinstance(space, spaces.Box) and space.is_bounded():
        return ActionSpace(int(np.prod(space.shape)), discrete=False)
    counts = choices(space)
    if counts is None:
        raise UserError(f"{name} has actions {space}: an agent needs {SUPPORTED}")
    size = math.prod(counts)
    if len(counts) > 1 and size > MOST_ACTIONS:
        raise UserError(
            f"{name} has actions {space}, {size:,} combinations: at most {MOST_ACTIONS:,} can be "
            f"actions of an agent"
        )
    return ActionSpace(size)


def choices(space: "spaces.Space[Any]") -> tuple[int, ...] | None:
    """How many values each of the discrete choices of an action has; None if there are others."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(int(count) for count in space.nvec.flat)
    if isinstance(space, spaces.MultiBinary):
        return (2,) * math.prod(space.shape)
    return None


def to_native(space: "spaces.Space[Any]", action: NDArray[Any]) -> Any:
    """An agent's action in the units of the environment.

    The last choice of a product changes fastest: of MultiDiscrete([2, 3]), action 4 is (1, 1).
    """
    if isinstance(space, spaces.Discrete):
        return int(space.start) + int(action)
    if isinstance(space, spaces.Box):
        share = (action.reshape(space.shape).astype(np.float64) + 1) / 2
        scaled = space.low + share * (space.high.astype(np.float64) - space.low)
        scaled = scaled if space.dtype is None or space.dtype.kind == "f" else np.rint(scaled)
        return np.clip(scaled, space.low, space.high).astype(space.dtype)
    values = np.array(np.unravel_index(int(action), choices(space) or ()))
    chosen = values.reshape(space.shape).astype(space.dtype)
    return chosen + space.start if isinstance(space, spaces.MultiDiscrete) else chosen
