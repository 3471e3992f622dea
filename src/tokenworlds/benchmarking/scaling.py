"""Updates of a recipe measured along every axis it has."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from tokenworlds.agent import Agent
from tokenworlds.benchmarking.axes import AXES, Axis, base_of, path_of
from tokenworlds.benchmarking.calibration import calibrate, join
from tokenworlds.benchmarking.documents import Circumstances
from tokenworlds.benchmarking.flops import count_flops
from tokenworlds.benchmarking.growth import Curve, Omission, Point, Take, Update, trace_curve
from tokenworlds.benchmarking.memory import give_back, watch
from tokenworlds.benchmarking.session import Candidate
from tokenworlds.benchmarking.subjects import random_segment, updates
from tokenworlds.benchmarking.timing import measure
from tokenworlds.core.seeding import seed_everything, torch_generator
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.envs.spec import EnvSpec
from tokenworlds.envs.vector import VectorEnv
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.dry_run import telling_what_does_not_fit
from tokenworlds.training.summary import count, discretisation

FORMAT = "tokenworlds-scaling-1"


@dataclass(frozen=True, slots=True)
class Survey:
    """All curves of a recipe at a size, and the axes that it does not have."""

    recipe: str
    size: str
    curves: Sequence[Curve]
    without: Sequence[str]


@dataclass(frozen=True, slots=True)
class Listener:
    """Whom to tell of an axis begun (or of one that is not there: no path), its points, its end."""

    axis: Callable[[Axis, str | None], None]
    point: Callable[[Point | Omission], None]
    curve: Callable[[Curve], None]


def take_survey(candidate: Candidate, take: Take, listener: Listener) -> Survey:
    """Measure a recipe along one axis after the other."""
    base, curves, without = base_of(candidate.recipe), list[Curve](), list[str]()
    for axis in AXES:
        path = path_of(axis, base)
        listener.axis(axis, path)
        if path is None:
            without.append(axis.name)
        else:
            curves.append(trace_curve(axis, path, base, take, listener.point))
            listener.curve(curves[-1])
    return Survey(candidate.name, candidate.size, curves, without)


def update_taker(env: EnvSpec, seconds: float) -> Take:
    """Measures updates on noise, with the actions and the channels of an environment."""
    with VectorEnv(env, num_envs=1, seed=0) as envs:
        shape, space = envs.frame_shape, envs.action_space
    return partial(take_update, shape=shape, space=space, seconds=seconds)


def take_update(
    recipe: Recipe, learner: str, shape: FrameShape, space: ActionSpace, seconds: float
) -> Update:
    """What one update of a learner takes, its networks built for it and thrown away."""
    frames = replace(shape, height=recipe.resolution, width=recipe.resolution)
    try:
        return measure_update(recipe, learner, frames, space, seconds)
    finally:
        gc.collect()
        give_back()


def measure_update(
    recipe: Recipe, learner: str, shape: FrameShape, space: ActionSpace, seconds: float
) -> Update:
    """The same, on frames of a shape."""
    seed_everything(0)
    with telling_what_does_not_fit():
        agent, generator = Agent.build(recipe, shape, space), torch_generator(0, "bench")
        subjects = updates(agent, recipe, partial(random_segment, shape, space), generator)
        subject = next(subject for subject in subjects if subject.name == learner)
        act = subject.prepare(subject.rows)
        # The first update makes the optimiser's averages, which later ones find.
        act()
    flops, memory = watch(partial(count_flops, act))
    before = calibrate()
    (timing,) = measure([act], seconds)
    calibration = join(before, calibrate())
    world: Any = agent.world
    return Update(
        batch=subject.rows,
        steps=subject.steps,
        seconds=timing,
        cal=timing.median / calibration.seconds,
        flops=flops.total,
        memory=memory.growth,
        parameters=count(world),
        discretisation=discretisation(world) if hasattr(world, "prior") else None,
        calibration=calibration,
    )


def to_document(circumstances: Circumstances, surveys: Sequence[Survey]) -> dict[str, Any]:
    """All of it, as JSON can hold it."""
    recipes = [asdict(survey) for survey in surveys]
    return {"format": FORMAT, **asdict(circumstances), "recipes": recipes}
