"""Everything that the page and the tables show of a comparison, computed once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenworlds.evaluation import statistics
from tokenworlds.evaluation.benchmarks import BENCHMARKS
from tokenworlds.evaluation.bootstrap import Curve
from tokenworlds.evaluation.comparison import literature, numbers
from tokenworlds.evaluation.comparison.grouping import Comparison
from tokenworlds.evaluation.comparison.literature import Column
from tokenworlds.evaluation.comparison.loading import NOT_STATED
from tokenworlds.evaluation.comparison.numbers import Estimate, Normalisation, estimate
from tokenworlds.evaluation.statistics import Scores, Statistic

MOST_ON_PROFILE = 8.0
"""A profile ends here: beyond, single games of single runs remain."""
OF_MEANS = (statistics.mean, statistics.median, statistics.iqm_of_task_means, statistics.superhuman)
"""Statistics that follow from one score per task."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """`scores` are by agent and task, `aggregates` by statistic and agent.

    `published` has the aggregates of published columns, in their order, by statistic.
    """

    comparison: Comparison
    normalisation: Normalisation | None
    scores: Mapping[str, Mapping[str, Estimate]]
    normalised: Mapping[str, Mapping[str, Estimate]]
    tasks: tuple[str, ...]
    """Those that the aggregates cover."""
    aggregates: Mapping[str, Mapping[str, Estimate]]
    improvements: Mapping[tuple[str, str], Estimate]
    profiles: Mapping[str, Curve]
    efficiency: Mapping[str, Curve]
    achievements: Mapping[str, Mapping[str, Estimate]]
    columns: tuple[Column, ...]
    published: tuple[Mapping[str, Estimate], ...]

    @property
    def scale(self) -> str:
        return self.normalisation.label if self.normalisation else "return"

    @property
    def published_columns(self) -> list[tuple[Column, Mapping[str, Estimate]]]:
        """Published columns that have aggregates, with these."""
        pairs = zip(self.columns, self.published, strict=True)
        return [(column, found) for column, found in pairs if found]

    @property
    def remarks(self) -> list[str]:
        """What a reader must know about the numbers, a sentence each."""
        comparison = self.comparison
        return [
            *mixture(comparison),
            *deviations(comparison),
            *computed_differently(comparison),
            *unfinished(comparison),
            *coverage(self),
        ]


def summarise(comparison: Comparison, references: str, others: Sequence[str] = ()) -> Summary:
    """`references` names a set of reference scores, `others` are published agents to show."""
    scale = numbers.normalisation_of(comparison, references)
    scores = {agent: comparison.scores(agent) for agent in comparison.agents}
    pooled = numbers.aggregated_scores(comparison, scale)
    tasks = tuple(next(iter(pooled.values()))) if pooled else ()
    human = scale is not None and scale.human
    kinds = numbers.statistics_for(pooled, human) if pooled else []
    columns = tuple(literature.columns(comparison, others))
    normalised = {agent: scale(found) for agent, found in scores.items() if scale}
    return Summary(
        comparison=comparison,
        normalisation=scale,
        scores={agent: by_task(found) for agent, found in scores.items()},
        normalised={agent: by_task(found) for agent, found in normalised.items()},
        tasks=tasks,
        aggregates={kind.label: by_agent(pooled, kind) for kind in kinds},
        improvements=numbers.improvements(pooled),
        profiles=numbers.profiles(pooled, MOST_ON_PROFILE) if scale else {},
        efficiency=efficiency(comparison, list(pooled), tasks, scale),
        achievements=achievements(comparison),
        columns=columns,
        published=tuple(published_aggregates(column, tasks, scale, kinds) for column in columns),
    )


def by_task(scores: Scores) -> dict[str, Estimate]:
    """The mean of every task; the interval is that of this task alone."""
    return {
        task: estimate({task: runs}, statistics.mean, repetitions=2000)
        for task, runs in scores.items()
    }


def by_agent(pooled: Mapping[str, Scores], kind: Statistic) -> dict[str, Estimate]:
    return {agent: estimate(scores, kind) for agent, scores in pooled.items()}


def efficiency(
    comparison: Comparison, agents: Sequence[str], tasks: Sequence[str], scale: Normalisation | None
) -> dict[str, Curve]:
    """Curves of several tasks on one scale."""
    if scale is None or len(tasks) < 2:
        return {}
    found = {agent: numbers.efficiency(comparison, agent, tasks, scale) for agent in agents}
    return {agent: curve for agent, curve in found.items() if curve is not None}


def achievements(comparison: Comparison) -> dict[str, dict[str, Estimate]]:
    found = {agent: numbers.achievements(comparison, agent) for agent in comparison.agents}
    return {agent: rates for agent, rates in found.items() if rates}


def published_aggregates(
    column: Column, tasks: Sequence[str], scale: Normalisation | None, kinds: Sequence[Statistic]
) -> dict[str, Estimate]:
    """The statistics that the table allows; none if it lacks a task, or if there is only one."""
    scores = literature.on_scale(column, tasks, scale) if len(tasks) > 1 else None
    if scores is None:
        return {}
    allowed = kinds if column.has_runs else [kind for kind in kinds if kind in OF_MEANS]
    return {kind.label: estimate(scores, kind) for kind in allowed}


def mixture(comparison: Comparison) -> list[str]:
    """Whether the scores may be compared."""
    if comparison.mixed:
        return [f"These scores are not comparable: {'; '.join(comparison.mixed)}."]
    if NOT_STATED in comparison.protocols:
        return ["Files of scores state no protocol: nobody checked that these are comparable."]
    return []


def deviations(comparison: Comparison) -> list[str]:
    """In what runs differ from the benchmark of their environments."""
    known = {found.family: found for found in BENCHMARKS.values()}
    benchmark = known.get(comparison.benchmark)
    described = [run for run in comparison.runs if run.description is not None]
    if benchmark is None or not described:
        return []
    protocol, name = benchmark.protocol, benchmark.name
    sentences = []
    if others := sorted({run.protocol for run in described} - {protocol.env}):
        sentences.append(f"Protocol {', '.join(others)} is not that of {name}.")
    lengths = sorted({run.steps for run in described if run.steps is not None})
    if protocol.steps is not None and lengths != [protocol.steps]:
        found = " or ".join(f"{steps:,}" for steps in lengths)
        sentences.append(f"Runs have {found} agent steps; {name} has {protocol.steps:,}.")
    fewest = min((run.episodes for run in described if run.finished), default=protocol.episodes)
    if fewest < protocol.episodes:
        sentences.append(
            f"Final evaluations have {fewest} episodes or more; {name} has {protocol.episodes}. "
            "Fewer episodes make scores less certain."
        )
    return sentences


def computed_differently(comparison: Comparison) -> list[str]:
    """Agents whose runs differ in code, precision or compilation."""
    sentences = []
    for agent in comparison.agents:
        runs = [run.description for run in comparison.runs if run.agent == agent]
        about = [found for found in runs if found is not None]
        for what, values in (
            ("versions of the code", {found.version for found in about}),
            ("precisions", {found.precision for found in about}),
        ):
            if len(values) > 1:
                listed = ", ".join(sorted(value or "unknown" for value in values))
                sentences.append(f"The runs of {agent} have different {what}: {listed}.")
    return sentences


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
    comparison, tasks = summary.comparison, summary.tasks
    if not any(comparison.scores(agent) for agent in comparison.agents):
        return ["No run is finished, so there are no final scores and no aggregates."]
    return [*missing_tasks(comparison, tasks), *missing_intervals(comparison)]


def missing_tasks(comparison: Comparison, tasks: Sequence[str]) -> list[str]:
    """Tasks of the runs that the aggregates leave out."""
    lacking = [task for task in comparison.tasks if task not in tasks]
    if not tasks and comparison.common_tasks:
        return ["These tasks have no reference scores: their returns are not aggregated."]
    if not tasks:
        return ["There is no task that every agent has finished: nothing is aggregated."]
    if lacking:
        noun = "task" if len(tasks) == 1 else "tasks"
        return [
            f"Aggregates cover the {len(tasks)} {noun} that every agent has finished and that can "
            f"be normalised, without {', '.join(lacking)}."
        ]
    return []


def missing_intervals(comparison: Comparison) -> list[str]:
    single = [
        agent
        for agent in comparison.agents
        if any(len(runs) == 1 for runs in comparison.scores(agent).values())
    ]
    if not single:
        return []
    return [
        f"{', '.join(single)}: a task with one seed has no interval, nor have the aggregates that "
        "contain it."
    ]
