"""A policy for the loop of a plain Gymnasium environment."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from torch import Generator

from tokenworlds.agent import Agent as AgentModule
from tokenworlds.api.observations import to_action
from tokenworlds.api.playing import Playing
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace
from tokenworlds.envs.actions import action_space, to_native
from tokenworlds.envs.boundary import describe_array
from tokenworlds.envs.frames import resize_area, to_grey
from tokenworlds.envs.gym import rgb
from tokenworlds.envs.observations import ImageReader
from tokenworlds.envs.options import EnvOptions

Read = Callable[[Any, int], NDArray[np.uint8]]
"""From an observation and a size: an RGB image of that size."""


class Policy:
    """Takes raw observations of one environment and returns actions that its `step` takes.

    Observations are read as in training: images of any size and type are resized, and an agent
    that learned from rendered frames reads those of `env`. Call `reset()` with each `env.reset()`,
    or pass `first=True` with the first observation of an episode:

    >>> policy = agent.as_policy(env)
    >>> obs, info = env.reset()
    >>> policy.reset()
    >>> action = policy(obs)
    """

    def __init__(
        self,
        module: AgentModule,
        env: "gymnasium.Env[Any, Any] | None",
        options: EnvOptions,
        temperature: float,
        generator: Generator,
    ) -> None:
        self._env = env
        self._shape = module.frame_shape
        self._temperature, self._generator = temperature, generator
        self._playing = Playing(module)
        if env is not None:
            check_actions_of(env, module.action_space)
        self._read = read_bytes if env is None else reader(env, options)

    def reset(self) -> None:
        """The next observation opens an episode."""
        self._playing.reset()

    def frame(self, obs: Any) -> NDArray[np.uint8]:
        """The frame that the agent sees of an observation, as `Agent.imagine` takes it."""
        image = self._read(obs, self._shape.height)
        return to_grey(image) if self._shape.channels == 1 else image

    def __call__(self, obs: Any, first: bool = False) -> Any:
        if first:
            self.reset()
        frames = self.frame(obs)[None]
        action = self._playing.act(frames, None, self._generator, self._temperature)
        if self._env is None:
            return to_action(action, single=True)
        return to_native(self._env.action_space, action[0].cpu().numpy())


def reader(env: "gymnasium.Env[Any, Any]", options: EnvOptions) -> Read:
    """How training read an environment with these options."""
    if options.render:
        return lambda obs, size: resize_area(rgb(env.render()), size, size)
    return ImageReader("the environment", env.observation_space, options.image_key)


def read_bytes(obs: Any, size: int) -> NDArray[np.uint8]:
    """An image of bytes; nothing else is known of an observation without its environment."""
    image = np.asarray(obs)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] not in (1, 3, 4):
        raise UserError(
            f"the observation is {describe_array(image)}, not an image of uint8 (height, width, "
            "3): pass the environment, as_policy(env), to read it as in training"
        )
    frame = resize_area(np.ascontiguousarray(image[..., :3]), size, size)
    return frame if frame.shape[-1] == 3 else frame.repeat(3, axis=-1)


def check_actions_of(env: "gymnasium.Env[Any, Any]", expected: ActionSpace) -> None:
    """Raise `UserError` unless the environment takes the agent's actions."""
    if action_space("the environment", env.action_space) != expected:
        kind = "choices" if expected.discrete else "numbers in [-1, 1]"
        raise UserError(
            f"the environment has actions {env.action_space}: this agent's are {expected.size} "
            f"{kind}"
        )
