"""A run taken apart: everything that must exist for it, built from its description."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from tokenworlds.agent import Agent
from tokenworlds.core.precision import computing
from tokenworlds.core.progress import Phase, Progress
from tokenworlds.core.seeding import (
    global_states,
    insist_on_determinism,
    numpy_generator,
    restore_global_states,
    seed_everything,
    torch_generator,
)
from tokenworlds.core.types import Segment
from tokenworlds.envs.vector import Finished, VectorEnv
from tokenworlds.replay.segments import Windows, gather
from tokenworlds.replay.store import ReplayStore
from tokenworlds.runs.checkpoint import Checkpoint
from tokenworlds.runs.recipe import Recipe
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.collector import Collector
from tokenworlds.training.compilation import OF_BEHAVIOURS, OF_WORLDS, Compiler
from tokenworlds.training.learner import Context, Learner
from tokenworlds.training.token_cache import Coding, KnownCodes

CODES = "codes"
"""The set of a checkpoint that holds what is known of them."""
OPTIMISER = "optimiser_"
"""How the sets of a checkpoint begin that optimisers are restored from."""


def progress_of(checkpoint: Checkpoint) -> Progress:
    """How far a run was; the optimisers have counted their steps."""
    sets, state = checkpoint.tensors, checkpoint.state
    counts = [sets[name]["updates"] for name in sets if name.startswith(OPTIMISER)]
    return Progress(state["steps"], state["updates"], sum(int(count) for count in counts))


class Job:
    """Environments, replay, networks, learners and generators of one run.

    What its user should know while it computes is said to `tell`.
    """

    def __init__(
        self, spec: RunSpec, folder: Path, tell: Callable[[str], None] = lambda text: None
    ) -> None:
        torch.set_num_threads(spec.threads)
        insist_on_determinism(spec.device)
        seed_everything(spec.seed)
        self.spec = spec
        self.progress = Progress()
        num_envs = spec.recipe.num_envs
        self.envs = VectorEnv(spec.env, num_envs=num_envs, seed=spec.seed)
        facts = {"frame_shape": self.envs.frame_shape, "action_space": self.envs.action_space}
        self.agent = Agent.build(spec.recipe, **facts, precision=spec.precision).to(spec.device)
        self.replay = ReplayStore(folder / "replay", num_envs=num_envs, **facts)
        self.generators = {
            name: torch_generator(spec.seed, name, device=spec.device) for name in ("act", "dream")
        }
        self.rng = numpy_generator(spec.seed, "replay")
        self.collector = Collector(
            self.envs, self.replay, self.agent, self.generators["act"], spec.recipe.collection
        )
        self._add_learners(spec.recipe, self._context(tell))
        world = self.agent.world
        self.codes = KnownCodes(world, self.agent.device) if isinstance(world, Coding) else None

    def _context(self, tell: Callable[[str], None]) -> Context:
        """What a lesson is worked out in: the run's precision, and a compiler if one is wanted."""
        agent, precision = self.agent, self.spec.precision
        if not self.spec.compiled:
            return partial(computing, agent.device, precision)
        compiler = Compiler(agent.device, tell)
        compiler.compile_methods(agent.world, OF_WORLDS)
        compiler.compile_methods(agent.behaviour, OF_BEHAVIOURS)
        return partial(compiler.working, precision)

    def _add_learners(self, recipe: Recipe, context: Context) -> None:
        batches = {name: learning.batch for name, learning in recipe.learning.items()}
        self.sampler = recipe.sampler.build(batches=batches)
        parts = self.agent.parts(self.generators["dream"])
        self.learners = {
            name: Learner(name, learning, parts[name], context)
            for name, learning in recipe.learning.items()
        }

    def collect(self, phase: Phase) -> list[Finished]:
        """The real steps of a phase; returns the games that were finished."""
        finished = self.collector.collect(phase.collect, phase.random)
        steps = self.progress.steps + phase.collect * len(self.envs)
        self.progress = replace(self.progress, steps=steps)
        return finished

    def update(self, name: str) -> dict[str, Tensor]:
        """One update of a learner, from replay."""
        learner, learning = self.learners[name], self.spec.recipe.learning[name]
        windows = Windows.of(self.replay, learning.length)
        starts = self.sampler.sample(name, windows, learning.batch, self.rng)
        segment = gather(self.replay, starts, learning.length, self.spec.device)
        metrics = learner.update(self._with_codes(name, segment, starts))
        done = {**self.progress.updates, name: self.progress.updates.get(name, 0) + 1}
        taken = sum(learner.optimiser.updates for learner in self.learners.values())
        self.progress = replace(self.progress, updates=done, gradient_steps=taken)
        return metrics

    def _with_codes(
        self, learner: str, segment: Segment, starts: Int[np.ndarray, "B 2"]
    ) -> Segment:
        """The segment with what is known of it, for learners that read codes and do not move them.

        Those that a learner is about to move are forgotten.
        """
        if self.codes is None:
            return segment
        if learner == self.codes.world.coder:
            self.codes.forget()
            return segment
        with computing(self.agent.device, self.spec.precision):
            return self.codes.complete(segment, starts)

    def checkpoint(self, **more: Any) -> Checkpoint:
        """Everything that the future of the run hangs on, and `more` to be kept with it."""
        carry, collector = self.collector.state()
        generators = {name: g.get_state() for name, g in self.generators.items()}
        tensors: dict[str, Mapping[str, Tensor]] = {
            "weights": self.agent.state_dict(),
            "carry": carry,
            "generators": {**generators, **global_states(self.agent.device)},
            "sampler": {k: torch.from_numpy(v) for k, v in self.sampler.state().items()},
        }
        if self.codes is not None:
            tensors[CODES] = self.codes.state()
        for name, learner in self.learners.items():
            tensors[f"{OPTIMISER}{name}"] = learner.optimiser.state()
        state = {
            "steps": self.progress.steps,
            "updates": dict(self.progress.updates),
            "collector": collector,
            "replay": self.replay.state(),
            "rng": self.rng.bit_generator.state,
            **more,
        }
        return Checkpoint(tensors, state)

    def restore(self, checkpoint: Checkpoint) -> list[str]:
        """Go back to a checkpoint; returns what had to be told about environments."""
        tensors, state = checkpoint.tensors, checkpoint.state
        self.replay.restore(state["replay"])
        self.agent.load_state_dict(dict(tensors["weights"]))
        for name, learner in self.learners.items():
            learner.optimiser.restore(tensors[f"{OPTIMISER}{name}"])
        self.sampler.restore({k: v.numpy() for k, v in tensors["sampler"].items()})
        if self.codes is not None:
            self.codes.restore(tensors[CODES])
        self.progress = progress_of(checkpoint)
        told = self.collector.restore(tensors["carry"], state["collector"])
        self.rng.bit_generator.state = state["rng"]
        for name, generator in self.generators.items():
            generator.set_state(tensors["generators"][name])
        restore_global_states(tensors["generators"], self.agent.device)
        return told

    def close(self) -> None:
        """Give back what the environments hold."""
        self.envs.close()
