"""A recipe tried out on blank frames, so that what cannot work is told before a run begins."""

import contextlib
from collections.abc import Iterator

import torch

from tokenworlds.agent import Agent
from tokenworlds.core.config import ConfigOf
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.precision import computing
from tokenworlds.core.progress import Progress
from tokenworlds.core.protocols import Schedule
from tokenworlds.core.seeding import global_states, restore_global_states
from tokenworlds.core.types import FrameShape, Segment
from tokenworlds.replay.sampling import Latest
from tokenworlds.runs.recipe import Recipe, build_schedule

LONG_ENOUGH = 12
"""Steps in which all that a learner does with a segment has happened once."""
MISFITS = (
    *(ValueError, TypeError, RuntimeError, ArithmeticError),
    *(LookupError, AssertionError, AttributeError),
)
"""What networks raise when the numbers they are made from do not fit together."""


@contextlib.contextmanager
def telling_what_does_not_fit() -> Iterator[None]:
    """Turns the complaint of some layer into a sentence about the recipe."""
    try:
        yield
    except MISFITS as error:
        said = str(error.args[0]) if error.args else type(error).__name__
        reason = " ".join(said.split())
        raise UserError(f"the recipe does not fit together: {reason}") from error


def rehearse(agent: Agent, recipe: Recipe, frame_shape: FrameShape) -> None:
    """Act, and compute the first lesson of each part; changes neither weights nor generators."""
    insist_that_all_learn(recipe)
    insist_that_segments_fit(recipe)
    insist_on_fresh_steps(recipe)
    before = global_states(agent.device)
    buffers = {name: buffer.clone() for name, buffer in agent.named_buffers()}
    segment = blank_segment(agent, frame_shape)
    generator = torch.Generator(agent.device).manual_seed(0)
    with torch.no_grad():
        for name, part in agent.parts(generator).items():
            learning = recipe.learning[name]
            steps = min(learning.length, LONG_ENOUGH)
            tried = blank_segment(agent, frame_shape, steps=steps)
            with computing(agent.device, agent.precision):
                lesson = next(part.lessons(tried))
            lesson.total(learning.scales)
        act_twice(agent, segment, generator)
        for name, buffer in agent.named_buffers():
            buffer.copy_(buffers[name])
    restore_global_states(before, agent.device)


def act_twice(agent: Agent, segment: Segment, generator: torch.Generator) -> None:
    """Once without a past, once with one."""
    carry = agent.initial(1)
    for _ in range(2):
        _, carry = agent.act(segment.frame[:, 0], segment.first[:, 0], carry, generator)


def insist_that_segments_fit(recipe: Recipe) -> None:
    """Each learner's first update must find steps enough in every stream."""
    collected, waiting = 0, set(recipe.learning)
    for phase in build_schedule(recipe).phases(Progress()):
        collected += phase.collect
        for name in sorted(waiting & {name for name, due in phase.updates.items() if due}):
            length = recipe.learning[name].length
            if length > collected:
                raise UserError(
                    f"learning.{name}.length={length} does not fit: at its first update each of "
                    f"the {recipe.num_envs} environments holds {collected} steps; raise "
                    f"{earlier(recipe.schedule)}, or lower the length or environments"
                )
            waiting.discard(name)
        if not waiting:
            return


def insist_on_fresh_steps(recipe: Recipe) -> None:
    """Each row of the latest steps is a stream; who learns from real steps must have made them."""
    latest = isinstance(recipe.sampler, Latest.Config)
    for name, learning in recipe.learning.items():
        if latest and learning.batch != recipe.num_envs:
            raise UserError(
                f"learning.{name}.batch={learning.batch} does not fit sampler=latest with "
                f"num_envs={recipe.num_envs}: it takes one row for each"
            )
    if getattr(recipe.behaviour, "experience", "dream") != "real":
        return
    collection = recipe.collection
    if not latest or collection.temperature != 1.0 or collection.random_share:
        raise UserError(
            "behaviour.experience=real learns from what its own policy just did: it takes "
            "sampler=latest, collection.temperature=1 and collection.random_share=0"
        )


def earlier(schedule: ConfigOf[Schedule]) -> str:
    """The choice of a schedule that says how much is collected before anything is learned."""
    found = [name for name in ("warm_up", "first_steps") if hasattr(schedule, name)]
    return f"schedule.{found[0]}" if found else "what the schedule collects before"


def insist_that_all_learn(recipe: Recipe) -> None:
    """A schedule must speak of every learner, if only to say 0, and of no other."""
    spoken, learners = build_schedule(recipe).goal.updates, recipe.learning
    for name in spoken:
        if name not in learners:
            raise unknown("learner in the schedule", name, learners)
    for name in learners:
        if name not in spoken:
            raise UserError(f"the schedule says nothing of the updates of {name!r}")


def blank_segment(agent: Agent, shape: FrameShape, batch: int = 1, steps: int = 2) -> Segment:
    """Steps in which nothing is seen and nothing happens."""
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
