"""Everything that the page and the tables show of a comparison, computed once."""

from collections.abc import Mapping
from dataclasses import dataclass

from tokenworlds.evaluation import statistics
from tokenworlds.evaluation.bootstrap import Curve
from tokenworlds.evaluation.comparison.grouping import Comparison
from tokenworlds.evaluation.comparison.numbers import (
    Estimate,
    Normalisation,
    aggregated_scores,
    estimate,
    improvements,
    normalisation_of,
    profiles,
    statistics_for,
)


@dataclass(frozen=True, slots=True)
class Summary:
    """`scores` are by agent and task, `aggregates` by statistic and agent."""

    comparison: Comparison
    normalisation: Normalisation | None
    scores: Mapping[str, Mapping[str, Estimate]]
    normalised: Mapping[str, Mapping[str, Estimate]]
    aggregated_tasks: tuple[str, ...]
    aggregates: Mapping[str, Mapping[str, Estimate]]
    improvements: Mapping[tuple[str, str], Estimate]
    profiles: Mapping[str, Curve]

    @property
    def scale(self) -> str:
        return self.normalisation.label if self.normalisation else "return"

    @property
    def remarks(self) -> list[str]:
        """What a reader must know about the numbers, a sentence each."""
        return [*mixture(self.comparison), *unfinished(self.comparison), *coverage(self)]


def summarise(comparison: Comparison, reference_set: str) -> Summary:
    normalisation = normalisation_of(comparison, reference_set)
    by_agent = {agent: comparison.scores(agent) for agent in comparison.agents}
    on_scale = (
        {agent: normalisation(found) for agent, found in by_agent.items()} if normalisation else {}
    )
    pooled = aggregated_scores(comparison, normalisation)
    kinds = statistics_for(pooled, normalisation is not None) if pooled else ()
    tasks = tuple(next(iter(pooled.values()))) if pooled else ()
    highest = max((max(map(max, found.values())) for found in pooled.values()), default=0.0)
    show_profiles = bool(pooled) and normalisation is not None
    return Summary(
        comparison,
        normalisation,
        {agent: by_task(found) for agent, found in by_agent.items()},
        {agent: by_task(found) for agent, found in on_scale.items()},
        tasks,
        {
            kind.label: {agent: estimate(found, kind) for agent, found in pooled.items()}
            for kind in kinds
        },
        improvements(pooled) if pooled else {},
        profiles(pooled, min(max(highest, 1.0), 8.0)) if show_profiles else {},
    )


def by_task(scores: Mapping[str, list[float]]) -> dict[str, Estimate]:
    """The mean of every task; the interval is that of this task alone."""
    return {
        task: estimate({task: runs}, statistics.mean, repetitions=2000)
        for task, runs in scores.items()
    }


def mixture(comparison: Comparison) -> list[str]:
    if not comparison.mixed:
        return []
    return [f"These scores are not comparable: {'; '.join(comparison.mixed)}."]


def unfinished(comparison: Comparison) -> list[str]:
    runs = [run for run in comparison.runs if not run.finished]
    if not runs:
        return []
    count = "One run is" if len(runs) == 1 else f"{len(runs)} runs are"
    return [
        f"{count} not finished: shown at the step reached and as dotted curves, and in no mean "
        "and no aggregate."
    ]


def coverage(summary: Summary) -> list[str]:
    """Which tasks the aggregates cover, and where there is no interval."""
    comparison, tasks = summary.comparison, summary.aggregated_tasks
    sentences = []
    if not any(comparison.scores(agent) for agent in comparison.agents):
        return ["No run is finished, so there are no final scores and no aggregates."]
    if not tasks:
        return ["The games have no reference scores or no agent has them all: no aggregates."]
    lacking = [task for task in comparison.tasks if task not in tasks]
    if lacking:
        sentences.append(
            f"Aggregates cover the {len(tasks)} tasks that every agent has finished, without "
            f"{', '.join(lacking)}."
        )
    single = sorted(
        {
            agent
            for agent in comparison.agents
            if any(len(runs) == 1 for runs in comparison.scores(agent).values())
        }
    )
    if single:
        sentences.append(
            f"{' and '.join(single)}: some tasks have one seed, which has no interval; aggregates "
            "that contain one have none either."
        )
    return sentences
