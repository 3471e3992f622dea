"""What is measured of a recipe: its updates, its dreams, its acting and its environment.

Segments are random frames of the recipe's own batch and length; no disk is touched.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Generator

from tokenworlds.agent import Agent
from tokenworlds.benchmarking.autoencoder import autoencoder_of
from tokenworlds.benchmarking.codings import BATCH_OF, CODES
from tokenworlds.benchmarking.timing import Act
from tokenworlds.core.seeding import seed_everything, torch_generator
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import ActionSpace, FrameShape, Segment
from tokenworlds.envs.spec import EnvSpec
from tokenworlds.envs.vector import VectorEnv
from tokenworlds.evaluation.episodes import random_actions
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.dry_run import rehearse, telling_what_does_not_fit
from tokenworlds.training.learner import Learner
from tokenworlds.training.token_cache import Coding

Kind = Literal["update", "codes", "autoencoder", "dream", "acting", "environment"]
ENV_STEPS = 32
"""Steps of every stream in one repeat: a single one is over before it can be timed."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A piece of work on `rows` of `steps` each; `prepare` makes it ready for fewer or all rows."""

    name: str
    kind: Kind
    rows: int
    steps: int
    prepare: Callable[[int], Act]


@contextmanager
def subjects(recipe: Recipe, env: EnvSpec, seed: int = 0) -> Iterator[list[Subject]]:
    """All there is to measure of a recipe in an environment, which is closed afterwards."""
    seed_everything(seed)
    with VectorEnv(env, num_envs=recipe.num_envs, seed=seed) as envs:
        with telling_what_does_not_fit():
            agent = Agent.build(recipe, envs.frame_shape, envs.action_space)
            rehearse(agent, recipe, envs.frame_shape)
        tokens = agent.world.tokens if isinstance(agent.world, Coding) else 0
        draw = partial(random_segment, envs.frame_shape, envs.action_space, tokens=tokens)
        generator = torch_generator(seed, "bench")
        yield [
            *updates(agent, recipe, draw, generator),
            *codings(agent, recipe, draw, generator),
            *autoencoders(agent, recipe, draw, generator),
            *dreams(agent, recipe, draw, generator),
            acting(agent, recipe, draw(1, 1, generator), generator),
            playing(envs, generator),
        ]


Draw = Callable[[int, int, Generator], Segment]


def random_segment(
    shape: FrameShape,
    space: ActionSpace,
    batch: int,
    length: int,
    generator: Generator,
    tokens: int = 0,
) -> Segment:
    """Steps of noise in the middle of an episode, rewarded by -1, 0 or 1.

    If it is to know its codes they are all the same: it makes no difference to what they cost.
    """
    lead = (batch, length)
    size = (*lead, shape.height, shape.width, shape.channels)
    nothing = torch.zeros(lead, dtype=torch.bool)
    actions = random_actions(space, batch * length, generator)
    return Segment(
        frame=torch.randint(256, size, dtype=torch.uint8, generator=generator),
        first=nothing,
        action=actions.unflatten(0, lead),
        reward=torch.randint(-1, 2, lead, generator=generator).float(),
        terminated=nothing,
        truncated=nothing,
        mask=~nothing,
        codes=torch.zeros((*lead, tokens), dtype=torch.long) if tokens else None,
    )


def first_rows(segment: Segment, rows: int) -> Segment:
    """A part of a batch."""
    return map_tensors(lambda leaf: leaf[:rows], segment)


def updates(agent: Agent, recipe: Recipe, draw: Draw, generator: Generator) -> Iterator[Subject]:
    """One update of each learner."""
    parts = agent.parts(generator)
    for name, learning in recipe.learning.items():
        yield update(Learner(name, learning, parts[name]), "update", draw, generator)


def codings(agent: Agent, recipe: Recipe, draw: Draw, generator: Generator) -> Iterator[Subject]:
    """The frames of an update coded, where learners find codes that are known."""
    world = agent.world
    if not isinstance(world, Coding):
        return
    learning = recipe.learning[BATCH_OF]
    segment = draw(learning.batch, learning.length, generator)
    wanted = torch.ones_like(segment.mask)
    wanted[:, : world.codes_look_back] = False

    def prepare(rows: int) -> Act:
        return partial(world.codes_of, first_rows(segment, rows), wanted[:rows])

    steps = learning.length - world.codes_look_back
    yield Subject(CODES, "codes", learning.batch, steps, prepare)


def autoencoders(
    agent: Agent, recipe: Recipe, draw: Draw, generator: Generator
) -> Iterator[Subject]:
    """What of an update is the tokenizer's alone, where it learns together with the rest."""
    learner = autoencoder_of(agent.world, recipe, draw(1, 1, generator))
    if learner is not None:
        yield update(learner, "autoencoder", draw, generator)


def update(learner: Learner, kind: Kind, draw: Draw, generator: Generator) -> Subject:
    """One update of a learner, on a segment of its own."""
    batch, length = learner.learning.batch, learner.learning.length
    segment = draw(batch, length, generator)

    def prepare(rows: int) -> Act:
        return partial(learner.update, first_rows(segment, rows))

    return Subject(learner.name, kind, batch, length, prepare)


def dreams(agent: Agent, recipe: Recipe, draw: Draw, generator: Generator) -> Iterator[Subject]:
    """One dream of the behaviour's batch and horizon, from where it begins; none without any."""
    horizon, learning = agent.behaviour.horizon, recipe.learning["behaviour"]
    if not horizon:
        return
    segment = draw(learning.batch, learning.length, generator)

    def prepare(rows: int) -> Act:
        return partial(dream, agent, first_rows(segment, rows), horizon, generator)

    yield Subject("dream", "dream", learning.batch, horizon, prepare)


@torch.no_grad()
def dream(agent: Agent, segment: Segment, horizon: int, generator: Generator) -> None:
    """Let the behaviour act in the world from the end of a segment, which is read first."""
    world, behaviour = agent.world, agent.behaviour
    carry = world.start(segment, horizon)
    view, memory = world.view(carry), behaviour.initial(len(segment.first))
    for _ in range(horizon):
        action, memory = behaviour.act(view, memory, generator)
        carry, view = world.step(carry, action, generator)


def acting(agent: Agent, recipe: Recipe, segment: Segment, generator: Generator) -> Subject:
    """One action on one frame, with a past."""
    frame, first = segment.frame[:, 0], segment.first[:, 0]
    temperature = recipe.collection.temperature
    carry = agent.initial(1)

    def act() -> None:
        nonlocal carry
        _, carry = agent.act(frame, first, carry, generator, temperature)

    return Subject("acting", "acting", 1, 1, lambda rows: act)


def playing(envs: VectorEnv, generator: Generator) -> Subject:
    """Some steps of every stream at random, the next games begun where one is over."""

    def play() -> None:
        for _ in range(ENV_STEPS):
            envs.step(random_actions(envs.action_space, len(envs), generator).numpy())
        envs.finished()

    return Subject("environment", "environment", len(envs), ENV_STEPS, lambda rows: play)
