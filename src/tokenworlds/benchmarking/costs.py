"""What a step of the environment costs in learning, over a whole run of a recipe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenworlds.benchmarking.autoencoder import AUTOENCODER, TOGETHER, TOKENIZER
from tokenworlds.benchmarking.codings import CODES, codings_per_step
from tokenworlds.benchmarking.figures import Figure
from tokenworlds.runs.recipe import Recipe, build_schedule

DRAWING = {TOKENIZER: TOKENIZER, AUTOENCODER: TOGETHER}
"""Figures of learning to draw frames, and the learner with whose updates each is done."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left of a cost."""

    cal: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Cost:
    """For one environment step: `updates` of each learner, and what they take in cal and seconds.

    Where codes are known from one update to the next, `codes` is how often so many frames as in the
    figure of that name are coded, at most.

    Acting and the environment itself come on top. `without_autoencoder` leaves out what the
    tokenizer takes to learn to draw frames.
    """

    updates: Mapping[str, float]
    cal: Mapping[str, float]
    seconds: Mapping[str, float]
    total_cal: float
    total_seconds: float
    without_autoencoder: Rest


def updates_per_step(recipe: Recipe) -> dict[str, float]:
    """All updates of a run, shared out among its agent steps; final ones without steps count."""
    goal = build_schedule(recipe).goal
    return {name: count / goal.steps for name, count in goal.updates.items()}


def cost_of(recipe: Recipe, figures: Sequence[Figure]) -> Cost:
    """The cost of a step, from the figures of the updates."""
    updates = updates_per_step(recipe)
    found = {figure.name: figure for figure in figures if figure.kind in ("update", CODES)}
    if CODES in found:
        updates[CODES] = codings_per_step(recipe, found[CODES].batch * found[CODES].steps)
    cal = {name: updates[name] * figure.cal for name, figure in found.items()}
    seconds = {name: updates[name] * figure.seconds.median for name, figure in found.items()}
    total, time = sum(cal.values()), sum(seconds.values())
    return Cost(updates, cal, seconds, total, time, rest_of(total, time, updates, figures))


def rest_of(
    cal: float, seconds: float, updates: Mapping[str, float], figures: Sequence[Figure]
) -> Rest:
    """What is left without the tokenizer's updates, or without its share of the world's."""
    for figure in figures:
        if figure.name in DRAWING:
            often = updates[DRAWING[figure.name]]
            cal, seconds = cal - often * figure.cal, seconds - often * figure.seconds.median
    return Rest(max(cal, 0.0), max(seconds, 0.0))


def speeds_against(name: str, costs: Sequence[tuple[str, float]]) -> list[float | None]:
    """How many times as cheap as that of a name each cost is; None if that was not measured."""
    own = [cost for other, cost in costs if other == name]
    return [own[0] / cost if own and cost else None for _, cost in costs]
