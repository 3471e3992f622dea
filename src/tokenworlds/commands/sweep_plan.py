"""What `sweep --dry-run` prints: the runs, and what they will take."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenworlds.core.errors import UserError
from tokenworlds.runs.spec import RunSpec
from tokenworlds.sweeps.forecast import Planned, kind_of, measure, plan, total
from tokenworlds.sweeps.plan import Job, next_step
from tokenworlds.training.estimate import duration, size


def print_plan(
    jobs: Sequence[Job], specs: Sequence[RunSpec], folder: Path, at_a_time: int | None
) -> int:
    """`at_a_time` is None if the cluster decides. Returns the exit code."""
    for job in jobs:
        print(need(job, folder))
    room = (
        "as many at a time as the cluster holds" if at_a_time is None else f"{at_a_time} at a time"
    )
    print(f"{len(jobs)} runs in {folder}, {room}", flush=True)
    # One of each kind is timed.
    samples = {kind_of(spec): spec for spec in specs}
    estimates = {kind: measure(spec) for kind, spec in samples.items()}
    planned = plan(jobs, specs, folder, estimates)
    for line in (*kind_lines(planned), *total_lines(planned, at_a_time)):
        print(line)
    return 0


def need(job: Job, folder: Path) -> str:
    try:
        step = next_step(job, folder)
    except UserError as error:
        return f"{'fails':8} {error}"
    words = shlex.join(["tokenworlds", *step.words]) if step.words else ""
    return f"{step.kind:8} {words or folder / job.name}"


def kind_lines(planned: Sequence[Planned]) -> Iterator[str]:
    """A line for each kind of run."""
    kinds: dict[str, list[Planned]] = {}
    for each in planned:
        kinds.setdefault(kind_of(each.spec), []).append(each)
    for members in kinds.values():
        first, count = members[0], len(members)
        runs = f"{first.job.name}" + (f" and {count - 1} more like it" if count > 1 else "")
        if first.estimate is None:
            spec = first.spec
            words = f"{spec.recipe_name} --env {spec.env.name} --size {spec.size}"
            yield f"  {runs}: unknown; 'tokenworlds bench {words}' measures"
        else:
            time, disk = duration(first.estimate.seconds), size(first.estimate.disk)
            yield f"  {runs}: about {time} and at most {disk} each"


def total_lines(planned: Sequence[Planned], at_a_time: int | None) -> Iterator[str]:
    """Sums over what is left to do."""
    found = total(planned)
    apart = f", {found.unknown} runs of unknown length apart" if found.unknown else ""
    slots = min(at_a_time or 1, len(planned))
    together = f", {duration(found.seconds / slots)} with {slots} at a time" if slots > 1 else ""
    yield (
        f"about {duration(found.seconds)} of computing on this machine are left{together}"
        f"{apart}; environments and evaluations are not counted"
    )
    yield f"at most {size(found.disk)} of disk in all"
