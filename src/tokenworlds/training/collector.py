"""Plays in the real environments and stores every step."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from tokenworlds.agent import Agent, AgentCarry
from tokenworlds.core.trees import named_tensors, restore_tensors, where_rows
from tokenworlds.envs.vector import Finished, VectorEnv
from tokenworlds.evaluation.episodes import random_actions
from tokenworlds.replay.store import ReplayStore
from tokenworlds.runs.recipe import Collection
from tokenworlds.training.token_cache import LatentStore


class Collector:
    """Steps all environments with the agent, or at random."""

    def __init__(
        self,
        envs: VectorEnv,
        replay: ReplayStore,
        agent: Agent,
        generator: Generator,
        collection: Collection,
        latents: LatentStore | None = None,
    ) -> None:
        self.envs = envs
        self.replay = replay
        self.agent = agent
        self.generator = generator
        self.collection = collection
        self.latents = latents
        self.carry = agent.initial(len(envs))

    def collect(self, steps: int, random: bool) -> list[Finished]:
        """Take this many steps in every environment; returns the games that ended."""
        for _ in range(steps):
            frame, first = self.envs.frames, self.envs.first
            action = self._choose_action(random).cpu().numpy()
            step = self.envs.step(action)
            self.replay.append(frame, first, action, step.reward, step.terminated, step.truncated)
        return self.envs.finished()

    def _choose_action(self, random: bool) -> Tensor:
        if random and self.latents is None:
            return self._random_action()
        frame, first = torch.from_numpy(self.envs.frames), torch.from_numpy(self.envs.first)
        temperature = self.collection.temperature
        action, carry = self.agent.act(frame, first, self.carry, self.generator, temperature)
        if self.latents is not None:
            self.latents.append(self.latents.world.latents(carry.world))
        action = self._random_action() if random else self._mix_random(action)
        # The history must hold the action that is executed.
        self.carry = replace(carry, action=action)
        return action

    def _mix_random(self, action: Tensor) -> Tensor:
        """Replace a share of the actions by random ones."""
        share, generator = self.collection.random_share, self.generator
        if share == 0.0:
            return action
        replaced = torch.rand(len(action), generator=generator, device=generator.device) < share
        return where_rows(replaced, self._random_action(), action)

    def _random_action(self) -> Tensor:
        return random_actions(self.agent.action_space, len(self.envs), self.generator)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and JSON that `restore` needs."""
        return dict(named_tensors(self.carry)), {"envs": self.envs.state()}

    def restore(self, tensors: Mapping[str, Tensor], rest: Mapping[str, Any]) -> list[str]:
        """Restore a state; returns notes about environments that could not be restored."""
        self.carry = self.agent.initial(len(self.envs))
        if any(name.startswith("world.") for name in tensors):
            self.carry = restore_tensors(self._example_carry(), tensors)
        return self.envs.restore(rest["envs"])

    def _example_carry(self) -> AgentCarry:
        """A carry with the right structure and any values."""
        frame, first = torch.from_numpy(self.envs.frames), torch.from_numpy(self.envs.first)
        _, carry = self.agent.act(frame, first, self.carry, torch.Generator(self.agent.device))
        return carry
