"""Gymnasium environments whose steps are dreams of a world model."""

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Bool, UInt8
from numpy.typing import NDArray

from tokenworlds.api.agent import Agent
from tokenworlds.api.dream_states import Dreams, choose_starts
from tokenworlds.api.environment import RENDER_MODES, rgb
from tokenworlds.api.observations import check_actions
from tokenworlds.core.errors import UserError
from tokenworlds.worlds.real import Real

Frames = UInt8[np.ndarray, "N H W C"]
Flags = Bool[np.ndarray, " N"]


def open_dreams(agent: Agent, horizon: int | None, starts: str | None) -> Dreams:
    if isinstance(agent.module.world, Real):
        raise UserError(f"{agent} has no world model to dream with")
    length = agent.horizon if horizon is None else horizon
    if length < 1:
        raise UserError(f"a dream takes horizon=1 or more, not {length}")
    return Dreams(agent.module, choose_starts(agent, starts), length)


class DreamEnv(gymnasium.Env[Any, Any]):
    """A Gymnasium environment inside an agent's world model.

    An episode starts from steps in the run's replay (`starts="replay"`, the default for the agent
    of a run) or from a reset of the real environment (`starts="reset"`). It is terminated where
    the world model expects that, and truncated after `horizon` steps, by default as many as the
    policy's own dreams had. Observations are the frames that the world model decodes.
    """

    metadata: dict[str, Any] = RENDER_MODES

    def __init__(
        self,
        agent: Agent,
        *,
        horizon: int | None = None,
        starts: str | None = None,
        render_mode: str | None = "rgb_array",
    ) -> None:
        self.observation_space = agent.observation_space
        self.action_space = agent.action_space
        self.render_mode = render_mode
        self._agent = agent
        self._dreams = open_dreams(agent, horizon, starts)
        self._frame: NDArray[np.uint8] | None = None
        self._running = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Begin a dream. A seed determines this one and those that follow it."""
        super().reset(seed=seed)
        self._generator = dream_generator(self._agent, self.np_random)
        self._frame = self._dreams.begin(np.arange(1), self.np_random)[0]
        self._running = True
        return self._frame.copy(), {}

    def step(self, action: Any) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        if not self._running:
            raise UserError("no dream is running: call reset() before step()")
        actions = check_actions(action, self._agent.module.action_space, (0,), "the action")
        step = self._dreams.step(actions[None], self._generator)
        self._frame = step.frames[0]
        terminated, truncated = bool(step.terminated[0]), bool(step.truncated[0])
        self._running = not (terminated or truncated)
        return self._frame.copy(), float(step.rewards[0]), terminated, truncated, {}

    def render(self) -> NDArray[np.uint8] | None:
        """The current frame."""
        if self._frame is None or self.render_mode != "rgb_array":
            return None
        return rgb(self._frame)


class DreamVectorEnv(VectorEnv[NDArray[np.uint8], Any, NDArray[Any]]):
    """Many dreams at once, stepped as one batch; see `DreamEnv`.

    Autoreset is Gymnasium's `NEXT_STEP`: the step after the end of a dream ignores its action and
    returns the first frame of the next dream, with reward 0.
    """

    metadata: dict[str, Any] = {**RENDER_MODES, "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        agent: Agent,
        num_envs: int,
        *,
        horizon: int | None = None,
        starts: str | None = None,
        render_mode: str | None = "rgb_array",
    ) -> None:
        if num_envs < 1:
            raise UserError(f"num_envs takes 1 or more, not {num_envs}")
        self.num_envs = num_envs
        self.single_observation_space = agent.observation_space
        self.single_action_space = agent.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.render_mode = render_mode
        self._agent = agent
        self._dreams = open_dreams(agent, horizon, starts)
        self._frames = np.zeros(self.observation_space.shape or (), np.uint8)
        self._ended = np.ones(num_envs, bool)
        self._generator: torch.Generator | None = None

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frames, dict[str, Any]]:
        """Begin all dreams. They share their randomness, so they take one seed."""
        if isinstance(seed, list):
            raise UserError("dreams share their randomness: give one seed for all of them")
        super().reset(seed=seed)
        self._generator = dream_generator(self._agent, self.np_random)
        self._frames = self._dreams.begin(np.arange(self.num_envs), self.np_random)
        self._ended[:] = False
        return self._frames.copy(), {}

    def step(self, actions: Any) -> tuple[Frames, NDArray[Any], Flags, Flags, dict[str, Any]]:
        if self._generator is None:
            raise UserError("no dream is running: call reset() before step()")
        space = self._agent.module.action_space
        chosen = check_actions(actions, space, (1,))
        if len(chosen) != self.num_envs:
            raise UserError(f"{len(chosen)} actions for {self.num_envs} dreams")
        rewards = np.zeros(self.num_envs, np.float32)
        terminated, truncated = np.zeros((2, self.num_envs), bool)
        frames = self._frames.copy()
        if not self._ended.all():
            step = self._dreams.step(chosen, self._generator)
            frames[step.places], rewards[step.places] = step.frames, step.rewards
            terminated[step.places], truncated[step.places] = step.terminated, step.truncated
        if self._ended.any():
            fresh = np.flatnonzero(self._ended)
            frames[fresh] = self._dreams.begin(fresh, self.np_random)
        self._frames, self._ended = frames, terminated | truncated
        return frames.copy(), rewards, terminated, truncated, {}

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """The current frames."""
        return tuple(map(rgb, self._frames)) if self.render_mode == "rgb_array" else None


def dream_generator(agent: Agent, rng: np.random.Generator) -> torch.Generator:
    """A generator for sampled tokens, seeded from that of the environment."""
    generator = torch.Generator(device=agent.module.device)
    return generator.manual_seed(int(rng.integers(2**63)))
