"""The library's environments as Gymnasium environments."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from tokenworlds.core.protocols import Env
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.envs.options import with_options
from tokenworlds.envs.own import named_env

RENDER_MODES = {"render_modes": ["rgb_array"], "render_fps": 15}
SEEDS = 2**31


def observation_space(shape: FrameShape) -> spaces.Box:
    return spaces.Box(0, 255, (shape.height, shape.width, shape.channels), np.uint8)


def action_space(space: ActionSpace) -> "spaces.Discrete | spaces.Box":
    if space.discrete:
        return spaces.Discrete(space.size)
    return spaces.Box(-1.0, 1.0, (space.size,), np.float32)


def rgb(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A frame to show: grey ones in three equal channels."""
    return frame if frame.shape[-1] == 3 else frame[..., :1].repeat(3, axis=-1)


class GymnasiumEnv(gymnasium.Env[Any, Any]):
    """An environment as the agents see it: frames of their size, indices or vectors in [-1, 1].

    It plays whole games, as evaluations do.
    """

    metadata: dict[str, Any] = RENDER_MODES

    def __init__(self, env: Env, render_mode: str | None = "rgb_array") -> None:
        self._env = env
        self.render_mode = render_mode
        self.observation_space = observation_space(env.frame_shape)
        self.action_space = action_space(env.action_space)
        self._frame: NDArray[np.uint8] = np.zeros((1, 1, 3), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Begin a game. A seed determines this one and those that follow it."""
        super().reset(seed=seed)
        self._frame = np.array(self._env.reset(int(self.np_random.integers(SEEDS))))
        return self._frame.copy(), {}

    def step(self, action: Any) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        step = self._env.step(np.asarray(action))
        self._frame = np.array(step.frame)
        truncated = bool(step.truncated or (step.over and not step.terminated))
        return (
            self._frame.copy(),
            float(step.reward),
            bool(step.terminated),
            truncated,
            dict(step.info),
        )

    def render(self) -> NDArray[np.uint8] | None:
        """The current frame."""
        return rgb(self._frame) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        self._env.close()


def make_env(
    env: object, *, size: int = 64, grey: bool = False, protocol: str = "", **options: Any
) -> GymnasiumEnv:
    """An environment, by name or of your own, as the agents see it at this frame size.

    `options` are those of `--env-set`, as in frame_skip=4.
    """
    spec = EnvSpec(named_env(env), with_options(protocol, options), size, grey)
    return GymnasiumEnv(spec.make(evaluation=True))
