"""The report on a recipe: its measurements, the cost of an environment step, and comparisons."""

import gc
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenworlds.benchmarking.measurement import Measurement, Plan, measure_workloads
from tokenworlds.benchmarking.meters import release_memory
from tokenworlds.benchmarking.workloads import ENCODING, TOKENIZER, open_workloads, write_trace
from tokenworlds.core.capabilities import CachesTokens
from tokenworlds.core.errors import UserError
from tokenworlds.core.progress import Progress
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.runs.recipe import Recipe, build_schedule

FORMAT = "tokenworlds-bench-4"
OLDER_FORMATS = ("tokenworlds-bench-1", "tokenworlds-bench-2", "tokenworlds-bench-3")
BASELINE = "iris"
"""The recipe that speedups refer to."""

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """A recipe to measure, by its name and size, in an environment."""

    name: str
    size: str
    recipe: Recipe
    env: EnvSpec


@dataclass(frozen=True, slots=True)
class BenchEnvironment:
    """The conditions that all measurements share; `seconds` is the time limit of each."""

    env: str
    protocol: str
    threads: int
    seconds: float
    machine: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StepCost:
    """The cost of learning for one environment step, averaged over a run; acting is not included.

    `updates` are the updates of each learner per environment step. Where tokens are cached,
    `encoding` is an upper bound on the batches to encode. The last two fields exclude the training
    of the tokenizer.
    """

    updates: Mapping[str, float]
    cal: Mapping[str, float]
    seconds: Mapping[str, float]
    total_cal: float
    total_seconds: float
    cal_without_autoencoder: float
    seconds_without_autoencoder: float


@dataclass(frozen=True, slots=True)
class BenchReport:
    recipe: str
    size: str
    measurements: Sequence[Measurement]
    per_step: StepCost


def measure_recipe(
    target: Target, plan: Plan, listen: Callable[[Measurement], None], trace: Path | None = None
) -> BenchReport:
    """Measure all workloads of a recipe, and write a trace if there is a path for it."""
    measurements: list[Measurement] = []
    with open_workloads(target.recipe, target.env) as workloads:
        for measurement in measure_workloads(workloads, plan):
            measurements.append(measurement)
            listen(measurement)
        if trace is not None:
            write_trace(trace, workloads, {each.name: each.rows for each in measurements})
    # Free the networks, so that the next recipe is not charged for them.
    del workloads
    gc.collect()
    release_memory()
    cost = step_cost(target.recipe, measurements)
    return BenchReport(target.name, target.size, measurements, cost)


def step_cost(recipe: Recipe, measurements: Sequence[Measurement]) -> StepCost:
    updates = updates_per_step(recipe)
    counted = {each.name: each for each in measurements if each.kind in ("update", "encoding")}
    if ENCODING in counted:
        frames = counted[ENCODING].batch * counted[ENCODING].steps
        steps = build_schedule(recipe).goal.steps
        updates[ENCODING] = frames_encoded(recipe) / frames / steps
    cal = {name: updates[name] * each.cal for name, each in counted.items()}
    seconds = {name: updates[name] * each.seconds.median for name, each in counted.items()}
    total_cal, total_seconds = sum(cal.values()), sum(seconds.values())
    rest_cal, rest_seconds = total_cal, total_seconds
    for each in measurements:
        if each.name == TOKENIZER or each.kind == "autoencoder":
            rest_cal -= updates[each.learner] * each.cal
            rest_seconds -= updates[each.learner] * each.seconds.median
    rest = (max(rest_cal, 0.0), max(rest_seconds, 0.0))
    return StepCost(updates, cal, seconds, total_cal, total_seconds, *rest)


def updates_per_step(recipe: Recipe) -> dict[str, float]:
    """All updates of a run, those after the last step included, for each agent step."""
    goal = build_schedule(recipe).goal
    return {name: count / goal.steps for name, count in goal.updates.items()}


def frames_encoded(recipe: Recipe) -> int:
    """An upper bound on the frames that a run encodes with a token cache.

    Between two updates of the tokenizer, a run encodes the frames that its learners read, and each
    frame of replay at most once.
    """
    world: type[CachesTokens] = recipe.world.owner
    steps = read = cached = encoded = 0
    for phase in build_schedule(recipe).phases(Progress()):
        steps += phase.collect * recipe.num_envs
        for learner, count in phase.updates.items():
            if learner != world.tokenizer_learner:
                learning = recipe.learning[learner]
                read += count * learning.batch * (learning.length - world.token_context)
                cached = min(read, steps)
            elif count:
                encoded, read, cached = encoded + cached, 0, 0
    return encoded + cached


def speedups(names: Sequence[str], costs: Sequence[float]) -> list[float | None]:
    """Speedups over the baseline; None if it was not measured."""
    if BASELINE not in names:
        return [None] * len(costs)
    baseline = costs[names.index(BASELINE)]
    return [baseline / cost if cost else None for cost in costs]


def to_document(environment: BenchEnvironment, reports: Sequence[BenchReport]) -> dict[str, Any]:
    names = [report.recipe for report in reports]
    total = speedups(names, [report.per_step.total_cal for report in reports])
    rest = speedups(names, [report.per_step.cal_without_autoencoder for report in reports])
    recipes = [
        {**asdict(report), f"speedup_over_{BASELINE}": each, "speedup_without_autoencoder": other}
        for report, each, other in zip(reports, total, rest, strict=True)
    ]
    return {"format": FORMAT, **asdict(environment), "recipes": recipes}


def read_document(path: Path) -> Document:
    """Read a document to compare with, and check that it has all that `compare` reads."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {(error.strerror or 'unknown').lower()}") from error
    except ValueError as error:
        raise UserError(f"{path} is not a JSON document: {error}") from error
    found = document.get("format") if isinstance(document, dict) else None
    if found in OLDER_FORMATS:
        raise UserError(
            f"{path} has the older format {found}, which cannot be compared with {FORMAT}: "
            "measure again"
        )
    if found != FORMAT:
        raise UserError(f"{path} is not a document of 'tokenworlds bench --json' ({FORMAT})")
    try:
        compare(document, document)
        environment_differences(document, document)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged: {type(error).__name__}: {error}") from error
    return dict(document)


TOTAL = "total per step"
OTHER_WORK = "not the same work"
OTHER_FRACTION = "a different fraction was measured"


@dataclass(frozen=True, slots=True)
class Change:
    """The cost of a workload in cal, before and now; a `ratio` above 1 is a speedup.

    `remark` gives the reason if the two are not comparable.
    """

    recipe: str
    size: str
    name: str
    before: float
    now: float
    ratio: float
    remark: str = ""


def compare(before: Document, now: Document) -> list[Change]:
    """The changes of all measurements that are in both, and of each recipe's total per step."""
    old = {(each["recipe"], each["size"]): each for each in before["recipes"]}
    pairs = [(old.get((each["recipe"], each["size"])), each) for each in now["recipes"]]
    return [change for known, new in pairs if known for change in compare_reports(known, new)]


def compare_reports(before: Document, now: Document) -> Iterator[Change]:
    def change(name: str, was: float, is_now: float, remark: str) -> Change:
        ratio = was / is_now if is_now else float(was == is_now)
        return Change(now["recipe"], now["size"], name, was, is_now, ratio, remark)

    old = {each["name"]: each for each in before["measurements"]}
    remarks = set()
    for new in now["measurements"]:
        known = old.get(new["name"])
        if known is not None:
            remark = find_remark(known, new)
            remarks |= {remark} if new["kind"] == "update" else set()
            yield change(new["name"], known["cal"], new["cal"], remark)
    was, is_now = before["per_step"], now["per_step"]
    remarks |= {OTHER_WORK} if was["updates"] != is_now["updates"] else set()
    remark = next((each for each in (OTHER_WORK, OTHER_FRACTION) if each in remarks), "")
    yield change(TOTAL, was["total_cal"], is_now["total_cal"], remark)


def find_remark(before: Document, now: Document) -> str:
    if any(before[key] != now[key] for key in ("batch", "steps")):
        return OTHER_WORK
    return "" if before["rows"] == now["rows"] else OTHER_FRACTION


def environment_differences(before: Document, now: Document) -> list[str]:
    """Differences that affect speed and that the unit may not compensate."""
    pairs = [(name, before.get(name), now[name]) for name in ("env", "threads")]
    old, new = before["machine"], now["machine"]
    pairs.append(("processor", old.get("processor"), new.get("processor")))
    torch_versions = [machine.get("packages", {}).get("torch") for machine in (old, new)]
    pairs.append(("torch", *torch_versions))
    return [f"{name} was {was}, is {is_now}" for name, was, is_now in pairs if was != is_now]
