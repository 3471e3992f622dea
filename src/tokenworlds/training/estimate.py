"""How long a run will take, and how much disk: from a few timed updates before it begins.

The updates are those of another agent of the recipe, on blank frames, and torch's global generators
are restored: the run does not notice.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from tokenworlds.agent import Agent
from tokenworlds.core.capabilities import CachesTokens, KeepsLatents
from tokenworlds.core.precision import computing
from tokenworlds.core.progress import Progress
from tokenworlds.core.seeding import global_states, restore_global_states
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import Segment
from tokenworlds.replay.store import record_type
from tokenworlds.runs.recipe import Learning, Recipe
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.dry_run import blank_segment
from tokenworlds.training.learner import Learner, NonFiniteLoss
from tokenworlds.training.throughput import work_of

LEAST_UPDATES = 1000
"""Runs with fewer updates are over before anybody asks."""
PATIENCE = 1.5
"""Seconds that a whole batch may take; else the time of some rows is extrapolated."""
ACTIONS = 4


@dataclass(frozen=True, slots=True)
class Estimate:
    """`rates` are seconds of one update of each learner, and of one agent step without its
    environment; `seconds` is their sum over the run. `disk` is in bytes."""

    rates: Mapping[str, float]
    seconds: float
    disk: int


def estimate(agent: Agent, spec: RunSpec, goal: Progress) -> Estimate | None:
    """None for a short run, and if an update on blank frames fails."""
    return None if goal.update_count < LEAST_UPDATES else forecast(agent, spec, goal)


def forecast(agent: Agent, spec: RunSpec, goal: Progress) -> Estimate | None:
    """None if an update on blank frames fails."""
    before = global_states(agent.device)
    try:
        another = Agent.build(spec.recipe, agent.frame_shape, agent.action_space, spec.precision)
        rates, checkpoint = measure(another.to(spec.device), spec.recipe)
    except NonFiniteLoss:
        return None
    finally:
        restore_global_states(before, agent.device)
    seconds = sum(rates[kind] * units for kind, units in work_of(goal).items() if units)
    return Estimate(rates, seconds, checkpoint + disk(agent, spec.recipe, goal.steps))


def measure(agent: Agent, recipe: Recipe) -> tuple[dict[str, float], int]:
    """Seconds for each kind of work, and the bytes of weights and optimisers in checkpoints."""
    generator = torch.Generator(agent.device).manual_seed(0)
    trainables = agent.trainables(generator)
    rates = {"agent_steps": time_acting(agent, recipe, generator)}
    weights = size_of(agent.state_dict())
    # The best checkpoint holds weights alone; one more is written before the oldest is deleted.
    checkpoint, count = weights, recipe.housekeeping.keep + 1
    for name, learning in recipe.learning.items():
        context = partial(computing, agent.device, agent.precision)
        learner = Learner(name, learning, trainables[name], context)
        rates[f"{name}_updates"] = time_update(learner, learning, agent)
        checkpoint += count * size_of(learner.optimiser.state())
    return rates, checkpoint + count * weights


def time_acting(agent: Agent, recipe: Recipe, generator: torch.Generator) -> float:
    """Seconds of one agent step, the first one apart."""
    segment = blank_segment(agent, agent.frame_shape, recipe.num_envs)
    carry = None
    for done in range(ACTIONS + 1):
        if done == 1:
            begin = time.perf_counter()
        frame, first = segment.frame[:, 0], segment.first[:, 0]
        _, carry = agent.act(frame, first, carry, generator, recipe.collection.temperature)
    return (time.perf_counter() - begin) / ACTIONS / recipe.num_envs


def time_update(learner: Learner, learning: Learning, agent: Agent) -> float:
    """Seconds of an update of the whole batch."""
    segment = blank_segment(agent, agent.frame_shape, learning.batch, learning.length)
    if isinstance(agent.world, CachesTokens):
        tokens = torch.zeros((*segment.first.shape, agent.world.tokens), dtype=torch.long)
        segment = replace(segment, tokens=tokens.to(agent.device))

    def update(rows: int) -> float:
        part: Segment = map_tensors(lambda leaf: leaf[:rows], segment)
        return timed(partial(learner.update, part))

    update(1)  # Allocates the optimiser's state.
    single = update(1)
    if single * learning.batch <= PATIENCE:
        return min(update(learning.batch), update(learning.batch))
    rows = max(2, min(learning.batch // 8, int(PATIENCE / single)))
    more = update(rows)
    slope = max(more - single, 0.0) / (rows - 1)
    return more + slope * (learning.batch - rows)


def timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def disk(agent: Agent, recipe: Recipe, steps: int) -> int:
    """Bytes of replay, and of what checkpoints hold for each of its steps."""
    shape, world = agent.frame_shape, agent.world
    frame = shape.height * shape.width * shape.channels
    record = record_type(agent.action_space).itemsize
    cached = 4 * world.tokens if isinstance(world, CachesTokens) else 0
    kept = 4 * world.latent_size if isinstance(world, KeepsLatents) else 0
    count = recipe.housekeeping.keep + 1
    return steps * (frame + record + count * (cached + kept))


def size_of(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def sentence(found: Estimate, steps: int, episodes: int) -> str:
    """What a user wants to know before a run."""
    return (
        f"{steps:,} steps will take about {duration(found.seconds)} on this machine, environment "
        f"and {episodes:,} evaluation episodes apart, and at most {size(found.disk)} of disk"
    )


def duration(seconds: float) -> str:
    """Two digits: 40 s, 12 min, 3.4 h, 2.5 days."""
    for length, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 1.5 * length:
            count = seconds / length
            return f"{count:.0f} {unit}" if count >= 10 else f"{count:.2g} {unit}"
    return f"{seconds:.0f} s"


def size(count: int) -> str:
    for length, unit in ((1e9, "GB"), (1e6, "MB")):
        if count >= length:
            return f"{count / length:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"
