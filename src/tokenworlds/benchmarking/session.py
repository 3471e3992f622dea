"""The figures of a recipe, taken in the order that they are told in."""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tokenworlds.benchmarking.costs import cost_of
from tokenworlds.benchmarking.documents import Account
from tokenworlds.benchmarking.figures import Figure, Plan, take_figures
from tokenworlds.benchmarking.memory import give_back
from tokenworlds.benchmarking.profiling import write_trace
from tokenworlds.benchmarking.subjects import subjects
from tokenworlds.envs.spec import EnvSpec
from tokenworlds.runs.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Candidate:
    """A recipe to be measured, by its name and size, where it plays."""

    name: str
    size: str
    recipe: Recipe
    env: EnvSpec


def take_account(
    candidate: Candidate,
    plan: Plan,
    tell: Callable[[Figure], None],
    trace: Path | None = None,
) -> Account:
    """Measure a recipe, and write the trace that is asked for; each figure is told when taken."""
    figures: list[Figure] = []
    with subjects(candidate.recipe, candidate.env) as found:
        for figure in take_figures(found, plan):
            figures.append(figure)
            tell(figure)
        if trace is not None:
            write_trace(trace, found, {figure.name: figure.rows for figure in figures})
    # The networks of the next recipe are not to be counted with these.
    del found
    gc.collect()
    give_back()
    return Account(candidate.name, candidate.size, figures, cost_of(candidate.recipe, figures))
