"""Frames without colour: the luma of what a game draws, in one channel."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray

from tokenworlds.core.protocols import Env
from tokenworlds.core.types import EnvStep

LUMA = (299, 587, 114)
"""Thousandths of red, green and blue (ITU-R BT.601)."""


def to_grey(frame: UInt8[np.ndarray, "H W 3"]) -> UInt8[np.ndarray, "H W 1"]:
    """The luma of each pixel, rounded half up; in whole numbers, so on every machine alike."""
    luma = frame.astype(np.uint32) @ np.array(LUMA, np.uint32)
    grey: NDArray[np.uint8] = ((luma + 500) // 1000).astype(np.uint8)
    return grey[..., None]


class Grey:
    """An environment whose frames lose their colour on the way."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.frame_shape = replace(env.frame_shape, channels=1)
        self.action_space = env.action_space

    def reset(self, seed: int) -> NDArray[Any]:
        """Begin the game that this seed stands for; returns its first frame."""
        return to_grey(self.env.reset(seed))

    def step(self, action: NDArray[Any]) -> EnvStep:
        """Execute an action."""
        step = self.env.step(action)
        return replace(step, frame=to_grey(step.frame))

    def close(self) -> None:
        """Close the environment in colour."""
        self.env.close()
