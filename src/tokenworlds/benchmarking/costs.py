"""What a step of the environment costs in learning, over a whole run of a recipe."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tokenworlds.benchmarking.figures import Figure
from tokenworlds.training.recipe import Recipe, build_schedule


@dataclass(frozen=True, slots=True)
class Cost:
    """For one environment step: `updates` of each learner, and what they take in cal and seconds.

    Acting and the environment itself come on top.
    """

    updates: Mapping[str, float]
    cal: Mapping[str, float]
    seconds: Mapping[str, float]
    total_cal: float
    total_seconds: float


def updates_per_step(recipe: Recipe) -> dict[str, float]:
    """All updates of a run, shared out among its agent steps; final ones without steps count."""
    goal = build_schedule(recipe).goal
    return {name: count / goal.steps for name, count in goal.updates.items()}


def cost_of(recipe: Recipe, figures: Iterable[Figure]) -> Cost:
    """The cost of a step, from the figures of the updates."""
    updates = updates_per_step(recipe)
    found = {figure.name: figure for figure in figures if figure.kind == "update"}
    cal = {name: updates[name] * figure.cal for name, figure in found.items()}
    seconds = {name: updates[name] * figure.seconds.median for name, figure in found.items()}
    return Cost(updates, cal, seconds, sum(cal.values()), sum(seconds.values()))


def speeds_against(name: str, costs: Sequence[tuple[str, Cost]]) -> list[float | None]:
    """How many times as fast as the recipe of a name each one is; None if that was not measured."""
    own = [cost.total_cal for other, cost in costs if other == name]
    return [own[0] / cost.total_cal if own and cost.total_cal else None for _, cost in costs]
