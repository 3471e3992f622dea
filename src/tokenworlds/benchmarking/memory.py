"""Predict the peak memory of updates, and the size of replay, before a run.

An update of the whole batch is run with tensors that hold no numbers (hollow_cpu.py), and the bytes
that they would take are added up while they are alive. What kernels use for themselves is not
known here.
"""

import gc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from tokenworlds.agent import Agent
from tokenworlds.benchmarking.hollow_cpu import HollowCPU, hollow_module
from tokenworlds.benchmarking.meters import Task
from tokenworlds.benchmarking.workloads import random_segment
from tokenworlds.core.capabilities import CachesTokens, KeepsLatents
from tokenworlds.core.constants import forget_constants
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import ActionSpace, FrameShape, Segment
from tokenworlds.replay.store import CHUNK, record_type
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.learner import Learner


@dataclass(frozen=True, slots=True)
class UpdateMemory:
    """Bytes: `resident` between updates (weights, averages, optimisers and gradients of all
    learners), and what an update of each learner adds at its peak."""

    resident: int
    added: Mapping[str, int]

    @property
    def peak(self) -> int:
        return self.resident + max(self.added.values())


@dataclass(frozen=True, slots=True)
class ReplaySize:
    """Bytes on disk after all steps of a run, and in the memory of the process."""

    disk: int
    memory: int


def predict_memory(recipe: Recipe, shape: FrameShape, space: ActionSpace) -> UpdateMemory:
    """Without computing anything."""
    with torch.device("meta"):
        agent = Agent.build(recipe, shape, space)
    hollow_module(agent)
    forget_constants()  # They have numbers; those of the prediction have none.
    try:
        with HollowCPU() as tensors:
            tensors.know([*agent.parameters(), *agent.buffers()])
            added = {
                name: predict_update(tensors, learner, agent)
                for name, learner in learners_of(agent, recipe)
            }
    finally:
        forget_constants()
    return UpdateMemory(resident(agent), added)


def predict_update(tensors: HollowCPU, learner: Learner, agent: Agent) -> int:
    make_optimiser_state(learner)
    segment = segment_of(agent, learner)
    gc.collect()
    before = tensors.now
    tensors.most = before
    learner.update(segment)
    return tensors.most - before - gradients(learner)


def make_optimiser_state(learner: Learner) -> None:
    """As the first update does, without one."""
    for parameter in learner.optimiser.named.values():
        parameter.grad = torch.zeros_like(parameter)
    learner.optimiser.optimizer.step()
    learner.optimiser.optimizer.zero_grad(set_to_none=True)


def measure_memory(agent: Agent, recipe: Recipe) -> UpdateMemory:
    """From one update of each learner in its whole batch, by torch's own count."""
    added = {}
    for name, learner in learners_of(agent, recipe):
        segment = segment_of(agent, learner)
        learner.update(map_tensors(lambda leaf: leaf[:1], segment))
        learner.optimiser.optimizer.zero_grad(set_to_none=True)
        gc.collect()
        added[name] = allocated(partial(learner.update, segment)) - gradients(learner)
    return UpdateMemory(resident(agent), added)


def allocated(task: Task) -> int:
    """The most bytes that torch's CPU allocator gave to a task at once, temporary ones of kernels
    included, as the profiler reports it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        task()
    results = watched.profiler.kineto_results if watched.profiler is not None else None
    assert results is not None
    memory = [event for event in results.events() if event.name() == "[memory]"]
    memory.sort(key=lambda event: event.start_ns())
    changes: list[int] = [event.nbytes() for event in memory]
    return max(accumulate(changes, initial=0))


def learners_of(agent: Agent, recipe: Recipe) -> Iterator[tuple[str, Learner]]:
    trainables = agent.trainables(torch.Generator().manual_seed(0))
    for name, learning in recipe.learning.items():
        yield name, Learner(name, learning, trainables[name])


def segment_of(agent: Agent, learner: Learner) -> Segment:
    tokens = agent.world.tokens if isinstance(agent.world, CachesTokens) else 0
    size = (learner.learning.batch, learner.learning.length)
    generator = torch.Generator().manual_seed(0)
    return random_segment(agent.frame_shape, agent.action_space, *size, generator, tokens)


def gradients(learner: Learner) -> int:
    return sum(map(size_of, learner.optimiser.named.values()))


def resident(agent: Agent) -> int:
    """Weights and buffers, two moments for each parameter that learns, and its gradient."""
    kept = [*agent.parameters(), *agent.buffers()]
    learned = [parameter for parameter in agent.parameters() if parameter.requires_grad]
    return sum(map(size_of, kept)) + 3 * sum(map(size_of, learned))


def size_of(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def replay_size(recipe: Recipe, shape: FrameShape, space: ActionSpace) -> ReplaySize:
    """Frames are bytes on disk, but for the latest ones; all else of a step is in memory too."""
    with torch.device("meta"):
        world = Agent.build(recipe, shape, space).world
    frame = shape.height * shape.width * shape.channels
    record = record_type(space).itemsize
    cached = 4 * world.tokens if isinstance(world, CachesTokens) else 0
    kept = 4 * world.latent_size if isinstance(world, KeepsLatents) else 0
    latest = recipe.num_envs * CHUNK * frame
    steps = recipe.steps
    return ReplaySize(steps * (frame + record), latest + steps * (record + cached + kept))
