"""A dry run: a recipe tried on blank frames, so that mistakes show before training starts."""

import contextlib
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch

from tokenworlds.agent import Agent
from tokenworlds.core.capabilities import CachesTokens
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.precision import computing
from tokenworlds.core.progress import Progress
from tokenworlds.core.seeding import global_states, restore_global_states
from tokenworlds.core.types import FrameShape, Losses, Segment
from tokenworlds.replay.sampling import Latest
from tokenworlds.runs.recipe import Recipe, build_schedule

ENOUGH_STEPS = 12
"""Segments of this length exercise everything that a learner does."""
ENOUGH_IMAGINED = 2
"""Dreams of this length do; those of IRIS at its paper's size would take half a minute."""
MISMATCHES = (
    *(ValueError, TypeError, RuntimeError, ArithmeticError),
    *(LookupError, AssertionError, AttributeError),
)
"""What networks raise when their sizes do not fit together."""


@contextlib.contextmanager
def naming_mismatches() -> Iterator[None]:
    """Turn an error of some layer into a sentence about the recipe."""
    try:
        yield
    except MISMATCHES as error:
        text = str(error.args[0]) if error.args else type(error).__name__
        reason = " ".join(text.split())
        raise UserError(f"the recipe does not fit together: {reason}") from error


def dry_run(agent: Agent, recipe: Recipe, frame_shape: FrameShape) -> None:
    """Act, and compute the first losses of each learner; weights and generators do not change."""
    check_learners(agent, recipe)
    check_shifts(agent, recipe)
    check_segments(recipe)
    check_on_policy(agent, recipe)
    before = global_states(agent.device)
    buffers = {name: buffer.clone() for name, buffer in agent.named_buffers()}
    generator = torch.Generator(agent.device).manual_seed(0)
    trainables = agent.trainables(generator)
    with torch.no_grad(), short_dreams(agent):
        for name, learning in recipe.learning.items():
            steps = min(learning.length, ENOUGH_STEPS)
            segment = blank_segment(agent, frame_shape, steps=steps)
            with computing(agent.device, agent.precision):
                losses = trainables[name].losses(segment)
                losses = losses if isinstance(losses, Losses) else next(losses)
            losses.total(learning.scales)
        act_twice(agent, frame_shape, generator)
        for name, buffer in agent.named_buffers():
            buffer.copy_(buffers[name])
    restore_global_states(before, agent.device)


@contextlib.contextmanager
def short_dreams(agent: Agent) -> Iterator[None]:
    """Let the behaviour dream for a few steps only."""
    behaviour, horizon = agent.behaviour, agent.behaviour.horizon
    behaviour.horizon = min(horizon, ENOUGH_IMAGINED)
    try:
        yield
    finally:
        behaviour.horizon = horizon


def act_twice(agent: Agent, frame_shape: FrameShape, generator: torch.Generator) -> None:
    """Once without a history, once with one."""
    segment, carry = blank_segment(agent, frame_shape), agent.initial(1)
    for _ in range(2):
        _, carry = agent.act(segment.frame[:, 0], segment.first[:, 0], carry, generator)


def check_learners(agent: Agent, recipe: Recipe) -> None:
    """Every parameter needs one learner; the schedule must name every learner and no other."""
    trainables = agent.trainables(None)
    for name in recipe.learning:
        if name not in trainables:
            raise unknown("learner", name, trainables)
    modules = [trainables[name].module for name in recipe.learning]
    trained = [id(p) for module in modules for p in module.parameters() if p.requires_grad]
    total = sum(p.requires_grad for p in agent.parameters())
    if len(trained) != len(set(trained)) or len(trained) != total:
        raise UserError(
            f"learning={sorted(recipe.learning)} must train each parameter once: choose among "
            f"{', '.join(sorted(trainables))}"
        )
    scheduled = build_schedule(recipe).goal.updates
    for name in scheduled:
        if name not in recipe.learning:
            raise unknown("learner in the schedule", name, recipe.learning)
    for name in recipe.learning:
        if name not in scheduled:
            raise UserError(f"the schedule has no updates of the learner {name!r}")


def check_shifts(agent: Agent, recipe: Recipe) -> None:
    """Cached tokens are those of frames that are not shifted."""
    if not isinstance(agent.world, CachesTokens):
        return
    allowed = agent.world.tokenizer_learner
    for name, learning in recipe.learning.items():
        if learning.shift and name != allowed:
            raise UserError(
                f"learning.{name}.shift={learning.shift} cannot be used with the tokens that this "
                f"world caches: use 0, or set learning.{allowed}.shift"
            )


def check_segments(recipe: Recipe) -> None:
    """Replay must hold enough steps for each learner's first update."""
    schedule = build_schedule(recipe)
    collected, waiting = 0, set(recipe.learning)
    for phase in schedule.phases(Progress()):
        collected += phase.collect
        for name in sorted(waiting & {name for name, due in phase.updates.items() if due}):
            length = recipe.learning[name].length
            if length > collected:
                raise UserError(
                    f"learning.{name}.length={length} does not fit: at its first update each of "
                    f"the {recipe.num_envs} environments holds {collected} steps; raise "
                    f"{schedule.prefill_key}, or lower the length or num_envs"
                )
            waiting.discard(name)
        if not waiting:
            return


def check_on_policy(agent: Agent, recipe: Recipe) -> None:
    """Learning from real steps needs the present policy's latest steps, one row for each env."""
    latest = isinstance(recipe.sampler, Latest.Config)
    for name, learning in recipe.learning.items():
        if latest and learning.batch != recipe.num_envs:
            raise UserError(
                f"learning.{name}.batch={learning.batch} does not fit sampler=latest with "
                f"num_envs={recipe.num_envs}: it takes one row for each environment"
            )
    collection = recipe.collection
    if agent.behaviour.horizon:
        return
    if not latest or collection.temperature != 1.0 or collection.random_share:
        raise UserError(
            "behaviour.experience=real learns from its own policy's latest steps: it takes "
            "sampler=latest, collection.temperature=1 and collection.random_share=0"
        )


@runtime_checkable
class LearnsPositions(Protocol):
    """A world whose sequence model may learn each position of a segment by itself."""

    def trained_horizon(self, length: int) -> int | None:
        """The steps of a dream that segments of this length train; None if positions are free."""


def untrained_positions(agent: Agent, recipe: Recipe) -> list[str]:
    """A sentence if dreams are longer than the segments that the world learns from."""
    horizon, world = agent.behaviour.horizon, agent.world
    if not isinstance(world, LearnsPositions) or "world" not in recipe.learning:
        return []
    length = recipe.learning["world"].length
    trained = world.trained_horizon(length)
    if trained is None or horizon <= trained:
        return []
    return [
        f"learning.world.length={length} trains dreams of {max(trained, 0)} steps, fewer than "
        f"behaviour.horizon={horizon}: the steps after them are noise; take a length of at least "
        f"{length + horizon - trained}"
    ]


def blank_segment(agent: Agent, shape: FrameShape, batch: int = 1, steps: int = 2) -> Segment:
    """Black frames, zero actions and rewards."""
    lead, device = (batch, steps), agent.device
    nothing = torch.zeros(lead, dtype=torch.bool, device=device)
    return Segment(
        frame=torch.zeros(
            (*lead, shape.height, shape.width, shape.channels), dtype=torch.uint8, device=device
        ),
        first=nothing,
        action=agent.action_space.zeros(*lead, device=device),
        reward=torch.zeros(lead, device=device),
        terminated=nothing,
        truncated=nothing,
        mask=~nothing,
    )
