"""Observations and actions as users pass them: single or batched NumPy arrays."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.envs.boundary import describe_array

Action = int | NDArray[Any]
"""An index or a vector in [-1, 1]; for a batch, an array of them."""


def check_frames(obs: Any, shape: FrameShape, leading: tuple[int, ...] = (0, 1)) -> NDArray[Any]:
    """The observation as an array, if it is uint8 of the agent's frame shape.

    `leading` lists how many axes may come before those of a frame.
    """
    frames = np.asarray(obs)
    expected = (shape.height, shape.width, shape.channels)
    if frames.shape == expected[:2] and shape.channels == 1 and 0 in leading:
        frames = frames[..., None]
    fits = frames.shape[-3:] == expected and frames.ndim - 3 in leading and frames.size > 0
    if frames.dtype == np.uint8 and fits:
        return frames
    names = {0: "one frame", 1: "N frames", 2: "N histories of T frames"}
    taken = " or ".join(names[count] for count in leading)
    raise UserError(
        f"the observation is {describe_array(frames)}: this agent takes {taken}, uint8 of shape "
        f"{expected} each"
    )


def check_actions(
    actions: Any, space: ActionSpace, leading: tuple[int, ...], name: str = "actions"
) -> Tensor:
    """Actions as a tensor, if they belong to the space and have these numbers of leading axes."""
    array = np.asarray(actions)
    if space.discrete:
        fits = array.ndim in leading and array.dtype.kind in "iu"
        fits = fits and bool(((array >= 0) & (array < space.size)).all())
        wanted = f"whole numbers from 0 to {space.size - 1}"
    else:
        fits = array.ndim - 1 in leading and array.shape[-1] == space.size
        fits = fits and array.dtype.kind in "iuf" and bool((np.abs(array) <= 1).all())
        wanted = f"vectors of {space.size} numbers in [-1, 1]"
    if not fits:
        axes = " or ".join(["one", "[steps]", "[batch, steps]"][count] for count in leading)
        raise UserError(f"{name} is {describe_array(array)}: this agent takes {axes}, {wanted}")
    return torch.as_tensor(array, dtype=torch.long if space.discrete else torch.float32)


def to_action(action: Tensor, single: bool) -> Action:
    """An action as `env.step` takes it: an int or a vector, an array of them for a batch."""
    array: NDArray[Any] = action.cpu().numpy()
    if not single:
        return array
    return int(array[0]) if array.ndim == 1 else array[0]
