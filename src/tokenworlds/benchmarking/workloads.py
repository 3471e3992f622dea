"""The workloads of a recipe: updates, encoding, dreams, acting and environment steps.

They read random frames in the recipe's own batch size and length, and no disk.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Generator
from torch.profiler import ProfilerActivity, profile, record_function

from tokenworlds.agent import BEHAVIOUR, JOINT, Agent
from tokenworlds.benchmarking.meters import Task
from tokenworlds.core.capabilities import CachesTokens, ChoosesStarts
from tokenworlds.core.protocols import Tokenizer
from tokenworlds.core.seeding import seed_everything, torch_generator
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import ActionSpace, FrameShape, Losses, Segment, Trainable, to_frames
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.envs.vector import VectorEnv
from tokenworlds.evaluation.episodes import random_actions
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.dry_run import dry_run, naming_mismatches
from tokenworlds.training.learner import Learner

Kind = Literal["update", "encoding", "autoencoder", "dream", "acting", "environment"]
SampleSegment = Callable[[int, int], Segment]
"""Makes a segment of a batch size and length."""

TOKENIZER, WORLD = "tokenizer", "world"
ENCODING = "encoding"
ENV_STEPS = 32
"""Steps of each environment in one repeat: a single step is too short to time."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Work on `rows` sequences of `steps` steps; `prepare` returns a task for some of the rows.

    `learner` is the learner whose updates include the work, or that the work is for.
    """

    name: str
    kind: Kind
    rows: int
    steps: int
    prepare: Callable[[int], Task]
    learner: str = ""


@contextmanager
def open_workloads(recipe: Recipe, env: EnvSpec, seed: int = 0) -> Iterator[list[Workload]]:
    """All workloads of a recipe in an environment, which is closed on exit."""
    seed_everything(seed)
    with VectorEnv(env, num_envs=recipe.num_envs, seed=seed) as envs:
        shape, space = envs.frame_shape, envs.action_space
        with naming_mismatches():
            agent = Agent.build(recipe, shape, space)
            dry_run(agent, recipe, shape)
        generator = torch_generator(seed, "bench")
        tokens = agent.world.tokens if isinstance(agent.world, CachesTokens) else 0
        sample = partial(random_segment, shape, space, generator=generator, tokens=tokens)
        yield [
            *update_workloads(agent, recipe, sample, generator),
            *encoding_workloads(agent, recipe, sample),
            *autoencoder_workloads(agent, recipe, sample),
            *dream_workloads(agent, recipe, sample, generator),
            acting_workload(agent, recipe, sample(1, 1), generator),
            environment_workload(envs, generator),
        ]


def random_segment(
    shape: FrameShape,
    space: ActionSpace,
    batch: int,
    length: int,
    generator: Generator,
    tokens: int = 0,
) -> Segment:
    """Noise from the middle of an episode, with rewards of -1, 0 and 1.

    With `tokens`, every frame has that many cached tokens, all 0: their values do not affect cost.
    """
    lead = (batch, length)
    size = (*lead, shape.height, shape.width, shape.channels)
    none = torch.zeros(lead, dtype=torch.bool)
    actions = random_actions(space, batch * length, generator)
    return Segment(
        frame=torch.randint(256, size, dtype=torch.uint8, generator=generator),
        first=none,
        action=actions.unflatten(0, lead),
        reward=torch.randint(-1, 2, lead, generator=generator).float(),
        terminated=none,
        truncated=none,
        mask=~none,
        tokens=torch.zeros((*lead, tokens), dtype=torch.long) if tokens else None,
    )


def on_rows(segment: Segment, run: Callable[[Segment], object]) -> Callable[[int], Task]:
    """A task that runs on the first rows of a segment, for any number of them."""
    return lambda rows: partial(run, map_tensors(lambda leaf: leaf[:rows], segment))


def update_workloads(
    agent: Agent, recipe: Recipe, sample: SampleSegment, generator: Generator
) -> Iterator[Workload]:
    trainables = agent.trainables(generator)
    for name, learning in recipe.learning.items():
        yield update_workload(Learner(name, learning, trainables[name]), "update", name, sample)


def update_workload(learner: Learner, kind: Kind, of: str, sample: SampleSegment) -> Workload:
    batch, length = learner.learning.batch, learner.learning.length
    prepare = on_rows(sample(batch, length), learner.update)
    return Workload(learner.name, kind, batch, length, prepare, of)


def encoding_workloads(agent: Agent, recipe: Recipe, sample: SampleSegment) -> Iterator[Workload]:
    """Encode the frames of one update of the world, where learners use cached tokens."""
    world = agent.world
    if not isinstance(world, CachesTokens):
        return
    learning, context = recipe.learning[WORLD], world.token_context

    def encode(segment: Segment) -> None:
        wanted = torch.ones_like(segment.mask)
        wanted[:, :context] = False
        world.tokens_of(segment, wanted)

    prepare = on_rows(sample(learning.batch, learning.length), encode)
    yield Workload(ENCODING, "encoding", learning.batch, learning.length - context, prepare, WORLD)


def autoencoder_workloads(
    agent: Agent, recipe: Recipe, sample: SampleSegment
) -> Iterator[Workload]:
    """The tokenizer's share of an update of the world, where one learner trains both.

    STEP-VQ compares the costs of dynamics, imagination and behaviour without the autoencoder.
    """
    if TOKENIZER in recipe.learning:
        return
    for module in agent.modules():
        if isinstance(module, Tokenizer):
            together = recipe.learning[WORLD]
            # Rates, epsilons and scales name parts and terms that a tokenizer alone does not have.
            optimiser = replace(together.optimiser, rates={}, epsilons={})
            learning = replace(together, scales={}, optimiser=optimiser)
            trainable = Trainable(module, partial(tokenizer_losses, module))
            learner = Learner("autoencoder", learning, trainable)
            yield update_workload(learner, "autoencoder", WORLD, sample)


def tokenizer_losses(tokenizer: Tokenizer, segment: Segment) -> Losses:
    frames = to_frames(segment.frame)
    return tokenizer.losses(frames, tokenizer.encode(frames), segment.mask)


def dream_workloads(
    agent: Agent, recipe: Recipe, sample: SampleSegment, generator: Generator
) -> Iterator[Workload]:
    """One dream of as many rows as in an update, if the behaviour learns from dreams."""
    horizon, joint = agent.behaviour.horizon, JOINT in recipe.learning
    learner = JOINT if joint else BEHAVIOUR
    rows, length = recipe.learning[learner].batch, recipe.learning[learner].length
    if joint:
        # A joint update dreams from every step but the last.
        rows, length = rows * (length - 1), 1
    elif isinstance(agent.behaviour, ChoosesStarts) and agent.behaviour.dreams_from_every:
        rows, length = rows * length, 1
    if horizon:
        run = partial(dream, agent, horizon=horizon, generator=generator)
        yield Workload("dream", "dream", rows, horizon, on_rows(sample(rows, length), run), learner)


@torch.no_grad()
def dream(agent: Agent, segment: Segment, horizon: int, generator: Generator) -> None:
    """Read a segment, then let the behaviour act in the world from its end."""
    for _ in agent.imagine(segment, horizon, generator=generator):
        pass


def acting_workload(
    agent: Agent, recipe: Recipe, segment: Segment, generator: Generator
) -> Workload:
    """One action on one frame, with the history of earlier repeats."""
    frame, first = segment.frame[:, 0], segment.first[:, 0]
    temperature = recipe.collection.temperature
    carry = agent.initial(1)

    def act() -> None:
        nonlocal carry
        _, carry = agent.act(frame, first, carry, generator, temperature)

    return Workload("acting", "acting", 1, 1, lambda rows: act)


def environment_workload(envs: VectorEnv, generator: Generator) -> Workload:
    """Random steps of all environments; a finished game is followed by a new one."""

    def step() -> None:
        for _ in range(ENV_STEPS):
            envs.step(random_actions(envs.action_space, len(envs), generator).numpy())
        envs.finished()

    return Workload("environment", "environment", len(envs), ENV_STEPS, lambda rows: step)


def write_trace(path: Path, workloads: Sequence[Workload], rows: Mapping[str, int]) -> None:
    """Profile one update of each learner on so many rows, for ui.perfetto.dev."""
    updates = [
        (workload.name, workload.prepare(rows[workload.name]))
        for workload in workloads
        if workload.kind == "update"
    ]
    # The profiler would print its start and stop into the table.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with profile(activities=[ProfilerActivity.CPU]) as trace:
        for name, update in updates:
            with record_function(f"update of {name}"):
                update()
    trace.export_chrome_trace(str(path))
