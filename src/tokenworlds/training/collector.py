"""Plays in the real environment and writes down every step."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from tokenworlds.agent import Agent, AgentCarry
from tokenworlds.core.trees import named_tensors, restore_tensors, where_rows
from tokenworlds.envs.vector import Finished, VectorEnv
from tokenworlds.evaluation.episodes import random_actions
from tokenworlds.replay.store import ReplayStore
from tokenworlds.runs.recipe import Collection


class Collector:
    """Steps all environments with the agent, or at random."""

    def __init__(
        self,
        envs: VectorEnv,
        replay: ReplayStore,
        agent: Agent,
        generator: Generator,
        collection: Collection,
    ) -> None:
        self.envs = envs
        self.replay = replay
        self.agent = agent
        self.generator = generator
        self.collection = collection
        self.carry = agent.initial(len(envs))

    def collect(self, steps: int, random: bool) -> list[Finished]:
        """Take this many steps in every stream; returns the games that were finished."""
        for _ in range(steps):
            self._step(random)
        return self.envs.finished()

    def _step(self, random: bool) -> None:
        frame, first = self.envs.frames, self.envs.first
        action = (self._draw() if random else self._choose(frame, first)).cpu().numpy()
        outcome = self.envs.step(action)
        self.replay.append(
            frame, first, action, outcome.reward, outcome.terminated, outcome.truncated
        )

    def _choose(self, frame: np.ndarray, first: np.ndarray) -> Tensor:
        seen = torch.from_numpy(frame), torch.from_numpy(first)
        temperature = self.collection.temperature
        action, carry = self.agent.act(*seen, self.carry, self.generator, temperature)
        # What is remembered is what is done.
        self.carry = replace(carry, action=self._stray(action))
        return self.carry.action

    def _stray(self, action: Tensor) -> Tensor:
        """The actions, some of them replaced by random ones."""
        share, generator = self.collection.random_share, self.generator
        if share == 0.0:
            return action
        strays = torch.rand(len(action), generator=generator, device=generator.device) < share
        return where_rows(strays, self._draw(), action)

    def _draw(self) -> Tensor:
        return random_actions(self.agent.action_space, len(self.envs), self.generator)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and JSON that `restore` needs."""
        return dict(named_tensors(self.carry)), {"envs": self.envs.state()}

    def restore(self, tensors: Mapping[str, Tensor], rest: Mapping[str, Any]) -> list[str]:
        """Take over a state; returns what had to be told about environments."""
        self.carry = self.agent.initial(len(self.envs))
        if any(name.startswith("world.") for name in tensors):
            self.carry = restore_tensors(self._grown_carry(), tensors)
        return self.envs.restore(rest["envs"])

    def _grown_carry(self) -> AgentCarry:
        """A carry of the right form, whatever its values."""
        frame, first = torch.from_numpy(self.envs.frames), torch.from_numpy(self.envs.first)
        _, carry = self.agent.act(frame, first, self.carry, torch.Generator(self.agent.device))
        return carry
