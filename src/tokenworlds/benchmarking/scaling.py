"""How the cost of an update scales with one number of a recipe at a time."""

import gc
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import log
from typing import Any

from tokenworlds.agent import JOINT, Agent
from tokenworlds.benchmarking.measurement import Measurement, measure_workload
from tokenworlds.benchmarking.meters import available_memory, release_memory
from tokenworlds.benchmarking.report import BenchEnvironment, Target
from tokenworlds.benchmarking.workloads import random_segment, update_workloads
from tokenworlds.core.config import get_child, variant
from tokenworlds.core.errors import UserError
from tokenworlds.core.protocols import Prior
from tokenworlds.core.seeding import seed_everything, torch_generator
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.envs.vector import VectorEnv
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.dry_run import naming_mismatches
from tokenworlds.training.summary import count, discretisation

FORMAT = "tokenworlds-scaling-2"
MAX_CAL = 60.0
"""A value is skipped if its update might take longer."""
QUANTITIES = ("cal", "flops", "memory", "parameters", "discretisation")
BASE: Mapping[str, int] = {
    "learning.world.batch": 4,
    "learning.world.length": 16,
    "learning.behaviour.batch": 32,
    "learning.agent.batch": 4,
    "learning.agent.length": 16,
}
"""Upper bounds on the numbers that do not vary."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A number to vary, and the learner whose update is measured, or the joint learner.

    The number is at the first of `paths` that a recipe has. If `relative`, `values` are multiples
    of the recipe's own. The size of the data is the value to the `power`: the pixels of a frame are
    its resolution squared.
    """

    name: str
    learner: str
    paths: tuple[str, ...]
    values: tuple[int | float, ...]
    relative: bool = False
    power: int = 1


VOCABULARY = (
    "world.tokenizer.codebook.codes",
    "world.tokenizer.codes",
    "world.tokenizer.classes",
    "world.classes",
)
AXES = (
    Axis("batch", "world", ("learning.world.batch", "learning.agent.batch"), (1, 2, 4, 8, 16)),
    Axis("length", "world", ("learning.world.length", "learning.agent.length"), (8, 16, 32, 64)),
    Axis("resolution", "world", ("resolution",), (64, 96, 128), power=2),
    Axis("vocabulary", "world", VOCABULARY, (0.25, 0.5, 1, 2, 4), relative=True),
    Axis("horizon", "behaviour", ("behaviour.horizon",), (4, 8, 16, 32)),
)


@dataclass(frozen=True, slots=True)
class AxisStart:
    """The next axis to measure; `path` is None if the recipe has no such number."""

    axis: Axis
    path: str | None


@dataclass(frozen=True, slots=True)
class Point:
    """The cost of one update at a value, and the world's parameters.

    `discretisation` counts those between the encoder's map and the tokens and in the prior; None if
    the world has no such parts.
    """

    value: int
    measurement: Measurement
    parameters: int
    discretisation: int | None

    def quantities(self) -> dict[str, int | float | None]:
        return {
            "cal": self.measurement.cal,
            "flops": self.measurement.flops,
            "memory": self.measurement.memory_growth,
            "parameters": self.parameters,
            "discretisation": self.discretisation,
        }


@dataclass(frozen=True, slots=True)
class Skipped:
    value: int
    reason: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Points along an axis; `exponents` k of cost ~ size^k, over all and over the last two."""

    axis: str
    learner: str
    path: str
    points: Sequence[Point]
    skipped: Sequence[Skipped]
    exponents: Mapping[str, tuple[float, float] | None]


@dataclass(frozen=True, slots=True)
class ScalingReport:
    recipe: str
    size: str
    curves: Sequence[Curve]
    missing_axes: Sequence[str]


Event = AxisStart | Point | Skipped | Curve
MeasureUpdate = Callable[[Recipe, str, int], Point]
"""Measures an update of a recipe's learner, for the point of a value."""


def measure_scaling(
    target: Target, measure: MeasureUpdate, listen: Callable[[Event], None]
) -> ScalingReport:
    """Measure a recipe along every axis that it has."""
    base, curves, missing = small_base(target.recipe), list[Curve](), list[str]()
    for axis in AXES:
        path = find_path(axis, base)
        listen(AxisStart(axis, path))
        if path is None:
            missing.append(axis.name)
        else:
            curves.append(measure_curve(axis, path, base, measure, listen))
            listen(curves[-1])
    return ScalingReport(target.name, target.size, curves, missing)


def small_base(recipe: Recipe) -> Recipe:
    """The recipe with small batches."""
    own = {path: read_at(recipe, path) for path in BASE}
    return variant(recipe, {path: min(BASE[path], value) for path, value in own.items() if value})


def find_path(axis: Axis, recipe: Recipe) -> str | None:
    """Where a recipe has the number of an axis; None without it or without the learner."""
    real = read_at(recipe, "behaviour.experience") == "real"
    if learner_of(axis, recipe) not in recipe.learning or (axis.name == "horizon" and real):
        return None
    return next((path for path in axis.paths if read_at(recipe, path)), None)


def learner_of(axis: Axis, recipe: Recipe) -> str:
    return JOINT if JOINT in recipe.learning else axis.learner


def read_at(config: object, path: str) -> Any:
    """The value at a dotted path, or None."""
    for name in path.split("."):
        try:
            config = get_child(config, name)
        except (AttributeError, KeyError):
            return None
    return config


def axis_values(axis: Axis, recipe: Recipe, path: str) -> list[int]:
    unit = read_at(recipe, path) if axis.relative else 1
    return sorted({max(1, round(value * unit)) for value in axis.values})


def measure_curve(
    axis: Axis,
    path: str,
    recipe: Recipe,
    measure: MeasureUpdate,
    listen: Callable[[Point | Skipped], None],
) -> Curve:
    """Measure the values in ascending order; skip those that fail or exceed time or memory."""
    points, skipped, learner = list[Point](), list[Skipped](), learner_of(axis, recipe)
    for value in axis_values(axis, recipe, path):
        try:
            check_excess(value, points)
            points.append(measure(change(recipe, path, value), learner, value))
            listen(points[-1])
        except UserError as error:
            skipped.append(Skipped(value, str(error)))
            listen(skipped[-1])
    exponents = {name: fit_exponents(axis, points, name) for name in QUANTITIES}
    return Curve(axis.name, learner, path, points, skipped, exponents)


def change(recipe: Recipe, path: str, value: int) -> Recipe:
    try:
        return variant(recipe, {path: value})
    except ValueError as error:
        raise UserError(str(error)) from error


def check_excess(value: int, points: Sequence[Point]) -> None:
    """Raise if an update might be too large, assuming quadratic growth from the last point."""
    if not points:
        return
    last, available = points[-1], available_memory()
    factor = (value / last.value) ** 2
    if last.measurement.cal * factor > MAX_CAL:
        raise UserError(f"an update might take more than {MAX_CAL:g} cal")
    growth = last.measurement.memory_growth * factor
    if available is not None and 2 * growth > available:
        raise UserError("an update might take more than half of the available memory")


def fit_exponents(axis: Axis, points: Sequence[Point], quantity: str) -> tuple[float, float] | None:
    """The exponents of a quantity; None with fewer than two points or without the quantity."""
    sizes = [point.value**axis.power for point in points]
    costs = [cost for point in points if (cost := point.quantities()[quantity])]
    if len(points) < 2 or len(costs) < len(points):
        return None
    return slope(sizes, costs), slope(sizes[-2:], costs[-2:])


def slope(sizes: Sequence[int | float], costs: Sequence[int | float]) -> float:
    """The least-squares slope in logarithmic scale."""
    return statistics.linear_regression([*map(log, sizes)], [*map(log, costs)]).slope


def update_meter(env: EnvSpec, seconds: float) -> MeasureUpdate:
    """Measures updates on random frames with the channels and actions of an environment."""
    with VectorEnv(env, num_envs=1, seed=0) as envs:
        shape, space = envs.frame_shape, envs.action_space

    def measure(recipe: Recipe, learner: str, value: int) -> Point:
        frames = replace(shape, height=recipe.resolution, width=recipe.resolution)
        try:
            return Point(value, *measure_update(recipe, learner, frames, space, seconds))
        finally:
            gc.collect()
            release_memory()

    return measure


def measure_update(
    recipe: Recipe, learner: str, shape: FrameShape, space: ActionSpace, seconds: float
) -> tuple[Measurement, int, int | None]:
    """Measure one update of a learner with new networks, and count the world's parameters."""
    seed_everything(0)
    with naming_mismatches():
        agent, generator = Agent.build(recipe, shape, space), torch_generator(0, "bench")
        sample = partial(random_segment, shape, space, generator=generator)
        workloads = update_workloads(agent, recipe, sample, generator)
        workload = next(workload for workload in workloads if workload.name == learner)
        # The first update allocates the optimiser's state.
        workload.prepare(workload.rows)()
    measurement = measure_workload(workload, workload.rows, seconds)
    world: Any = agent.world
    has_prior = any(isinstance(child, Prior) for child in world.children())
    return measurement, count(world), discretisation(world) if has_prior else None


def to_document(environment: BenchEnvironment, reports: Sequence[ScalingReport]) -> dict[str, Any]:
    recipes = [asdict(report) for report in reports]
    return {"format": FORMAT, **asdict(environment), "recipes": recipes}
