"""A trained agent as users hold it: it acts, imagines and is evaluated."""

import os
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium

from tokenworlds.agent import Agent as AgentModule
from tokenworlds.agent import OpenedAgent, open_agent
from tokenworlds.api.environment import GymnasiumEnv, action_space, observation_space
from tokenworlds.api.evaluation import EvaluationResult, play
from tokenworlds.api.imagination import Dream, imagine
from tokenworlds.api.observations import Action, check_frames, to_action
from tokenworlds.api.own_env import trusting
from tokenworlds.api.playing import Playing
from tokenworlds.api.policy import Policy
from tokenworlds.core.errors import UserError
from tokenworlds.core.seeding import torch_generator
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.envs.gym import options_of
from tokenworlds.envs.options import EnvOptions
from tokenworlds.pretrained import resolve
from tokenworlds.replay.store import ReplayStore
from tokenworlds.runs.folder import LAST
from tokenworlds.runs.own_code import Trust
from tokenworlds.sharing.hub import fetched, is_on_hub
from tokenworlds.sharing.importing import import_agent
from tokenworlds.sharing.layouts import LAYOUTS
from tokenworlds.sharing.saving import save_agent, training_of
from tokenworlds.training.evaluation import open_replay
from tokenworlds.training.trainer import progress_of


class Agent:
    """A world model and a policy with the state of the episode that is being played.

    `module` is the torch module. It has the forms that keep no state: `module.act(frames, first,
    carry)` and `module.imagine(segment, steps)`.
    """

    def __init__(self, opened: OpenedAgent, trust: Trust | None = None, source: str = "") -> None:
        self._opened, self._source = opened, source
        self._trust = trust or Trust()
        self._playing = Playing(self.module)
        self.reset(seed=0 if opened.spec is None else opened.spec.seed)

    @staticmethod
    def load(
        folder: str | os.PathLike[str],
        modules: Mapping[str, ModuleType] | None = None,
        device: str | None = None,
        *,
        checkpoint: str | int = LAST,
        env: object = "",
        trust: bool = False,
        strict: bool = False,
    ) -> "Agent":
        """The agent of a run, or one that `save` wrote: a folder, `hub:user/name` (extra `hub`), or
        `pretrained:NAME` for one of the package.

        `checkpoint` is "last", "best" (the highest evaluation during training) or a step.

        A folder executes nothing. `modules` holds your own code by module name, if the recipe uses
        any, and `env` is your own environment again, by name or as an object, if the agent is to
        play in it; with `trust`, what the folder names is executed and imported instead. If the
        newest checkpoint is damaged, an older one is loaded with a warning; with `strict` that is
        an error. Without `device`, the agent of a run goes to the device it was trained on.
        """
        allowed = Trust(modules or {}, everything=trust)
        with fetched(folder, trust) if is_on_hub(folder) else nullcontext(resolve(folder)) as place:
            opened = open_agent(place, allowed, device, str(checkpoint), strict)
        return Agent(opened, trusting(allowed, env, opened.env))

    @staticmethod
    def import_weights(
        layout: str, *files: str | os.PathLike[str], env: str, protocol: str = ""
    ) -> "Agent":
        """The agent of files that the released implementation of a paper wrote.

        `layout` is "iris" or "delta-iris" (one file), or "storm" or "drama" (the world model's file
        and the agent's; the policy of "drama" begins anew, with a warning). The files must hold
        exactly the weights of that agent. Nothing in them is executed.
        """
        opened = import_agent(layout, [Path(file) for file in files], env, protocol)
        if LAYOUTS[layout].note:
            warnings.warn(LAYOUTS[layout].note, stacklevel=2)
        return Agent(opened, source=LAYOUTS[layout].source)

    def save(
        self, folder: str | os.PathLike[str], *, license: str = "", compact: bool = False
    ) -> Path:
        """Write weights, configuration, a few recorded steps and a model card; `load` reads the
        first two.

        The folder can be pushed to the Hugging Face hub as it is. `license` is that of the weights,
        by default "mit" for the agent of a run. `compact` rounds large matrices to bytes and leaves
        out target networks: a quarter of the size.
        """
        return save_agent(self._opened, Path(folder), license, self._source, compact)

    @property
    def module(self) -> AgentModule:
        return self._opened.agent

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """Frames as `act` takes them."""
        return observation_space(self.module.frame_shape)

    @property
    def action_space(self) -> "gymnasium.spaces.Discrete | gymnasium.spaces.Box":
        """Actions as `act` returns them."""
        return action_space(self.module.action_space)

    @property
    def horizon(self) -> int:
        """The length of the dreams that the policy learned from; 0 if it had none."""
        return self.module.behaviour.horizon

    @property
    def env(self) -> str:
        """The name of the environment that the agent was trained on."""
        return self.env_spec.name

    @property
    def env_spec(self) -> EnvSpec:
        if self._opened.env is None:
            raise UserError("this agent does not know its environment: save it again from its run")
        return self._opened.env

    def reset(self, rows: Any = None, *, seed: int | None = None) -> None:
        """Forget the episode: the next observation is the first of a new one.

        `rows` is a mask of the environments of a batch that begin anew. A seed makes the actions
        and dreams that follow reproducible.
        """
        self._playing.reset(rows)
        if seed is not None:
            device = str(self.module.device)
            self._generator = torch_generator(seed, "api", device=device)

    def act(self, obs: Any, *, first: Any = None, deterministic: bool | None = None) -> Action:
        """The action for an observation, or those for a batch of them.

        `obs` is a frame, uint8 [H, W, C], or a batch of N frames. The agent remembers the episode:
        call `reset()` when a new one begins, or pass `first=True` with its first observation (for
        a batch, N bools). `deterministic=True` takes the most likely action, False samples from
        the policy, None does what the recipe's evaluations do.
        """
        frames = check_frames(obs, self.module.frame_shape)
        single = frames.ndim == 3
        batch = frames[None] if single else frames
        temperature = self._temperature(deterministic)
        return to_action(self._playing.act(batch, first, self._generator, temperature), single)

    def _temperature(self, deterministic: bool | None) -> float:
        if deterministic is not None:
            return 0.0 if deterministic else 1.0
        recipe = self.module.recipe
        return 1.0 if recipe is None else recipe.evaluation.temperature

    def imagine(
        self,
        obs: Any,
        actions: Any = None,
        *,
        steps: int | None = None,
        past_actions: Any = None,
        deterministic: bool | None = None,
        seed: int | None = None,
    ) -> Dream:
        """What the world model expects to follow an observation.

        `obs` is a frame [H, W, C], a history of frames [T, H, W, C] with the T - 1 `past_actions`
        between them, or a batch of N histories [N, T, H, W, C]. `actions` are those to imagine,
        [steps] or [N, steps]; without them the policy acts for `steps` steps. One history is
        repeated for many action sequences. The state that `act` keeps is not touched.
        """
        generator = self._generator
        if seed is not None:
            generator = torch_generator(seed, "imagine", device=str(self.module.device))
        temperature = self._temperature(deterministic)
        given = (actions, steps, past_actions)
        return imagine(self.module, obs, *given, generator, temperature)

    def make_env(self) -> GymnasiumEnv:
        """The Gymnasium environment that the agent was trained on, with whole games."""
        return GymnasiumEnv(self._own_env().make(evaluation=True))

    def as_policy(
        self, env: "gymnasium.Env[Any, Any] | None" = None, *, deterministic: bool | None = None
    ) -> Policy:
        """A function from an environment's own observations to its own actions.

        See `Policy`; `env` is the environment of the loop, if that is not `make_env()`.
        """
        spec, temperature = self._opened.env, self._temperature(deterministic)
        options = EnvOptions() if spec is None else options_of(spec.protocol)
        return Policy(self.module, env, options, temperature, self._generator)

    def evaluate(
        self,
        episodes: int = 10,
        *,
        seed: int | None = None,
        deterministic: bool | None = None,
        protocol: str = "",
        processes: int | None = None,
    ) -> EvaluationResult:
        """Play whole games and return their returns.

        By default these are the games of `tokenworlds evaluate RUN`. The result does not depend on
        the number of processes (default: one for each core).
        """
        spec = self._own_env()
        return play(
            self.module,
            replace(spec, protocol=protocol or spec.protocol),
            episodes=episodes,
            seed=self._run_seed if seed is None else seed,
            steps=self.steps,
            temperature=self._temperature(deterministic),
            processes=processes,
        )

    @property
    def steps(self) -> int:
        """The agent steps that it was trained for; 0 if they are not known."""
        found, training = self._opened.checkpoint, self._opened.training
        stored = 0 if training is None else training.steps
        return stored if found is None else progress_of(found).steps

    @property
    def _run_seed(self) -> int:
        training = self._opened.spec or self._opened.training
        return 0 if training is None else training.seed

    def _own_env(self) -> EnvSpec:
        """The environment, if the user allows to import what its name asks for."""
        spec = self.env_spec
        run = self._opened.run
        self._trust.check_env(run.path if run else Path("this agent"), spec.name)
        return spec

    @cached_property
    def replay(self) -> ReplayStore | None:
        """The steps that the agent was trained on; None for one that `save` wrote."""
        run, spec, checkpoint = self._opened.run, self._opened.spec, self._opened.checkpoint
        if run is None or spec is None or checkpoint is None:
            return None
        return open_replay(run, spec, self.module, checkpoint)

    def __repr__(self) -> str:
        run, training = self._opened.run, training_of(self._opened)
        name = f"{training.recipe} ({training.size}), " if training else ""
        env = self._opened.env.name if self._opened.env else "an unknown environment"
        place = f", {run.path}" if run else ""
        return f"Agent({name}{env}, {self.steps:,} steps{place})"
