"""Which runs may be compared: one comparison for each benchmark, with one protocol and length.

Runs whose recipes differ are different agents, whatever their name: their seeds are not pooled.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tokenworlds.core.errors import UserError
from tokenworlds.evaluation.comparison.loading import Run

UNLIKE = ("housekeeping.", "evaluation.every", "evaluation.episodes", "evaluation.final_episodes")
"""Settings in which two runs of the same agent may differ."""
NAMED_SETTINGS = 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """The runs on one benchmark. `mixed` says what their protocols do not share."""

    benchmark: str
    runs: tuple[Run, ...]
    mixed: tuple[str, ...] = ()

    @property
    def agents(self) -> list[str]:
        return list(dict.fromkeys(run.agent for run in self.runs))

    @property
    def tasks(self) -> list[str]:
        return sorted({run.task for run in self.runs}, key=str.lower)

    @property
    def protocols(self) -> list[str]:
        return sorted({run.protocol for run in self.runs})

    def of(self, agent: str, task: str) -> list[Run]:
        return [run for run in self.runs if (run.agent, run.task) == (agent, task)]

    def scores(self, agent: str) -> dict[str, list[float]]:
        """The final score of every finished run by task; tasks without one are left out."""
        found: dict[str, list[float]] = {}
        for run in self.runs:
            if run.agent == agent and run.finished and run.score is not None:
                found.setdefault(run.task, []).append(run.score)
        return {task: found[task] for task in sorted(found, key=str.lower)}

    @property
    def common_tasks(self) -> list[str]:
        """Tasks with a finished run of every agent that has any."""
        scores = [found for agent in self.agents if (found := self.scores(agent))]
        return [task for task in self.tasks if scores and all(task in found for found in scores)]


def group(runs: Sequence[Run], mix_protocols: bool = False) -> tuple[list[Comparison], list[str]]:
    """Comparisons by benchmark, and notes about runs that were left out.

    `UserError` if protocols or lengths differ within a benchmark, unless they may be mixed.
    """
    labelled = distinguish(runs)
    kept, notes = without_repetitions(labelled)
    comparisons = []
    for benchmark in sorted({run.benchmark for run in kept}):
        members = tuple(run for run in kept if run.benchmark == benchmark)
        mixed = tuple(differences(members))
        if mixed and not mix_protocols:
            raise UserError(
                f"the runs on {benchmark} cannot be compared: {'; '.join(mixed)}: report them "
                "apart, or pass --mix-protocols, and the page says so"
            )
        comparisons.append(Comparison(benchmark, members, mixed))
    return comparisons, notes


def final_scores(comparisons: Sequence[Comparison]) -> dict[str, dict[str, list[float]]]:
    """By agent and task, the score of every finished run; several benchmarks name their family."""
    found: dict[str, dict[str, list[float]]] = {}
    for comparison in comparisons:
        prefix = f"{comparison.benchmark}:" if len(comparisons) > 1 else ""
        for agent in comparison.agents:
            scores = comparison.scores(agent)
            if scores:
                named = {f"{prefix}{task}": runs for task, runs in scores.items()}
                found.setdefault(agent, {}).update(named)
    return found


def differences(runs: Sequence[Run]) -> Iterator[str]:
    """What a reader must know before comparing these scores, a clause each."""
    protocols = sorted({run.protocol for run in runs})
    if len(protocols) > 1:
        listed = (f"{name} ({example(runs, 'protocol', name)})" for name in protocols)
        yield f"their protocols differ: {', '.join(listed)}"
    for task in sorted({run.task for run in runs}):
        finished = [run for run in runs if run.task == task and run.finished]
        lengths = sorted({run.steps for run in finished if run.steps is not None})
        if len(lengths) > 1:
            listed = (f"{steps:,} ({example(finished, 'steps', steps)})" for steps in lengths)
            yield f"their agent steps on {task} differ: {', '.join(listed)}"
            return


def example(runs: Sequence[Run], name: str, value: object) -> str:
    """The first run with a value, and how many others have it."""
    found = [run for run in runs if getattr(run, name) == value]
    first = found[0].source.name
    return first if len(found) == 1 else f"{first} and {len(found) - 1} more"


def without_repetitions(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """One run for each agent, task and seed: the furthest, since a repetition is no sample."""
    kept: dict[Any, Run] = {}
    notes = []
    for index, run in enumerate(runs):
        key = (run.benchmark, run.agent, run.task, run.protocol, run.seed)
        other = kept.get(key)
        if run.seed is None or other is None:
            kept[key if run.seed is not None else index] = run
            continue
        best, left = (run, other) if run.step > other.step else (other, run)
        kept[key] = best
        notes.append(
            f"{left.source} is left out: {best.source} has the same agent, task and seed {run.seed}"
        )
    return list(kept.values()), notes


def distinguish(runs: Sequence[Run]) -> list[Run]:
    """Add the settings in which recipes of one name differ on a task to the agents' names."""
    differing: dict[str, dict[str, None]] = {}
    for same in by_key(runs, lambda run: (run.agent, run.benchmark, run.task)):
        paths = differing.setdefault(same[0].agent, {})
        paths.update(dict.fromkeys(differing_settings(same)))
    return [replace(run, agent=name_of(run, list(differing[run.agent]))) for run in runs]


def name_of(run: Run, paths: Sequence[str]) -> str:
    if run.description is None or not paths:
        return run.agent
    settings = dict(leaves(run.description.settings))
    words = [f"{path}={settings.get(path, 'none')}" for path in paths[:NAMED_SETTINGS]]
    if len(paths) > NAMED_SETTINGS:
        # The rest is too long to read, and must still tell agents apart.
        rest = json.dumps([settings.get(path) for path in paths[NAMED_SETTINGS:]])
        words.append(f"{len(paths) - NAMED_SETTINGS} more settings ({digest(rest)})")
    return f"{run.agent}, {', '.join(words)}"


def digest(text: str) -> str:
    from tokenworlds.core.files import sha256

    return sha256(text.encode())[:4]


def differing_settings(runs: Sequence[Run]) -> list[str]:
    known = [dict(leaves(run.description.settings)) for run in runs if run.description]
    paths = dict.fromkeys(path for settings in known for path in settings)
    return [
        path
        for path in paths
        if not path.startswith(UNLIKE) and len({settings.get(path) for settings in known}) > 1
    ]


def leaves(settings: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, str]]:
    """Every setting with its dotted path and its value as text."""
    for name, value in settings.items():
        path = f"{place}{name}"
        if isinstance(value, Mapping):
            yield from leaves(value, f"{path}.")
        else:
            yield path, value.rpartition(":")[2] if isinstance(value, str) else json.dumps(value)


def by_key(runs: Sequence[Run], key: Any) -> list[list[Run]]:
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return list(groups.values())
