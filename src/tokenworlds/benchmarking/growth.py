"""How the cost of an update grows with a number of a recipe: curves, and the power they follow."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log

from tokenworlds.benchmarking.axes import Axis, values_of
from tokenworlds.benchmarking.calibration import Calibration
from tokenworlds.benchmarking.memory import available
from tokenworlds.benchmarking.timing import Timing
from tokenworlds.core.config import variant
from tokenworlds.core.errors import UserError
from tokenworlds.runs.recipe import Recipe

PATIENCE = 60.0
"""Cal that one update may be foreseen to take."""
QUANTITIES = ("cal", "flops", "memory", "parameters", "discretisation")


@dataclass(frozen=True, slots=True)
class Update:
    """What one update takes; of `memory`, in bytes, what it took beyond what was held before.

    `parameters` are those of the world, `discretisation` those of them between maps and codes and
    in the prior, if it is made of such.
    """

    batch: int
    steps: int
    seconds: Timing
    cal: float
    flops: float
    memory: int
    parameters: int
    discretisation: int | None
    calibration: Calibration


@dataclass(frozen=True, slots=True)
class Point:
    """What an update takes at a value."""

    value: int
    update: Update


@dataclass(frozen=True, slots=True)
class Omission:
    """A value that was not measured."""

    value: int
    why: str


@dataclass(frozen=True, slots=True)
class Growth:
    """The power of the amount that a cost grows with, over all points and over the last two."""

    overall: float
    end: float


@dataclass(frozen=True, slots=True)
class Curve:
    """What updates of a learner take along an axis."""

    axis: str
    learner: str
    path: str
    points: Sequence[Point]
    left_out: Sequence[Omission]
    growth: Mapping[str, Growth | None]


Take = Callable[[Recipe, str], Update]
Tell = Callable[[Point | Omission], None]


def trace_curve(axis: Axis, path: str, recipe: Recipe, take: Take, tell: Tell) -> Curve:
    """Measure one value after the other, as far as time and memory go."""
    points, left_out = list[Point](), list[Omission]()
    for value in values_of(axis, recipe, path):
        found = try_value(value, partial(change, recipe, path, value), axis.learner, points, take)
        tell(found)
        if isinstance(found, Point):
            points.append(found)
        else:
            left_out.append(found)
    growth = {name: growth_of(axis, points, name) for name in QUANTITIES}
    return Curve(axis.name, axis.learner, path, points, left_out, growth)


def change(recipe: Recipe, path: str, value: int) -> Recipe:
    """The recipe with another value, if its parts will have it."""
    try:
        return variant(recipe, {path: value})
    except ValueError as error:
        raise UserError(str(error)) from error


def try_value(
    value: int, make: Callable[[], Recipe], learner: str, before: Sequence[Point], take: Take
) -> Point | Omission:
    """What an update takes at a value, or why that is not known."""
    reason = excess(value, before[-1]) if before else ""
    if reason:
        return Omission(value, reason)
    try:
        return Point(value, take(make(), learner))
    except UserError as error:
        return Omission(value, str(error))


def excess(value: int, before: Point) -> str:
    """Why a value is too much after a smaller one, should all grow with its square; or nothing."""
    factor, left = (value / before.value) ** 2, available()
    if before.update.cal * factor > PATIENCE:
        return f"an update might take more than {PATIENCE:g} cal"
    if left is not None and 2 * before.update.memory * factor > left:
        return "an update might take more than half of the memory that is available"
    return ""


def growth_of(axis: Axis, points: Sequence[Point], quantity: str) -> Growth | None:
    """How a quantity grows, if there are points enough and none of them is nothing."""
    amounts = [axis.amount(point.value) for point in points]
    taken = [getattr(point.update, quantity) for point in points]
    if len(points) < 2 or not all(taken):
        return None
    return Growth(exponent(amounts, taken), exponent(amounts[-2:], taken[-2:]))


def exponent(amounts: Sequence[int | float], taken: Sequence[int | float]) -> float:
    """The slope of the line through the logarithms, by least squares."""
    return statistics.linear_regression([*map(log, amounts)], [*map(log, taken)]).slope
