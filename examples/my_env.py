"""An environment of your own: any Gymnasium environment whose observations are images.

tokenworlds train --env examples/my_env.py:make
PYTHONPATH=examples tokenworlds train --env gym:my_env:Corridor-v0 --env-set render=true
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

CELLS = 8


class Corridor(gymnasium.Env[np.ndarray, np.int64]):
    """Walk to the right end of a corridor, from a random cell of its left half."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = "rgb_array") -> None:
        self.render_mode = render_mode
        self._cell = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._cell = int(self.np_random.integers(CELLS // 2))
        return self.render(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._cell = max(0, self._cell + (1 if action == 1 else -1))
        done = self._cell == CELLS - 1
        return self.render(), float(done), done, False, {}

    def render(self) -> np.ndarray:
        frame = np.zeros((64, 64, 3), np.uint8)
        side = 64 // CELLS
        frame[28 : 28 + side, self._cell * side : (self._cell + 1) * side] = 255
        return frame


def make() -> gymnasium.Env[np.ndarray, np.int64]:
    return gymnasium.wrappers.TimeLimit(Corridor(), 32)


gymnasium.register("Corridor-v0", entry_point="my_env:Corridor", max_episode_steps=32)
