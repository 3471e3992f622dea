"""One figure: a piece of work measured, with the calibration timed right before and after it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from time import perf_counter

from tokenworlds.benchmarking.batches import Probe, fit_rows, ladder, share_of
from tokenworlds.benchmarking.calibration import Calibration, calibrate, join
from tokenworlds.benchmarking.codings import BATCH_OF
from tokenworlds.benchmarking.extrapolation import Sample, extrapolate, parts_of
from tokenworlds.benchmarking.flops import count_flops
from tokenworlds.benchmarking.memory import watch
from tokenworlds.benchmarking.subjects import Kind, Subject
from tokenworlds.benchmarking.timing import Clock, Timing, measure, time_once

Calibrate = Callable[[Clock], Calibration]
PART_OF: Mapping[Kind, str] = {"codes": BATCH_OF, "autoencoder": "world", "dream": "behaviour"}
"""The learner in whose updates, or for which, there is such work."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How it is measured: `seconds` for a figure, a `fraction` of each batch (None: what fits)."""

    seconds: float
    fraction: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """What a piece of work costs, `batch` rows of `steps` each; all numbers are of the whole.

    `rows` of them were measured and, unless it is 0, `fewer`, which tells what grows with the rows
    from the seconds that are `fixed`. `share` is how near the work comes to the machine's own
    products of matrices and convolutions: the time these would take, over that it took. `memory` is
    the most that the process held, in bytes.
    """

    name: str
    kind: Kind
    batch: int
    steps: int
    rows: int
    fewer: int
    fixed: float
    seconds: Timing
    cal: float
    steps_per_second: float
    flops: float
    share: float
    memory: int
    calibration: Calibration

    @property
    def is_scaled(self) -> bool:
        """Whether only a part was measured."""
        return self.rows < self.batch


def take_figures(
    subjects: Sequence[Subject],
    plan: Plan,
    calibrate: Calibrate = calibrate,
    clock: Clock = perf_counter,
) -> Iterator[Figure]:
    """The figures of all subjects, one after the other."""
    chosen: dict[str, int] = {}
    for subject in subjects:
        rows = chosen[subject.name] = choose_rows(subject, plan, chosen, clock)
        yield take_figure(subject, rows, plan.seconds, calibrate, clock)


def choose_rows(subject: Subject, plan: Plan, chosen: dict[str, int], clock: Clock) -> int:
    """How many rows are measured; what is part of an update takes as many as that."""
    if subject.kind in ("update", "autoencoder"):
        # The first update makes the optimiser's averages, which later ones find.
        subject.prepare(ladder(subject.rows)[0])()
    if subject.kind in PART_OF:
        return chosen[PART_OF[subject.kind]]
    if subject.kind != "update":
        return subject.rows
    if plan.fraction is not None:
        return share_of(subject.rows, plan.fraction)
    return fit_rows(subject.rows, plan.seconds, lambda rows: probe(subject, rows, clock))


def probe(subject: Subject, rows: int, clock: Clock) -> Probe:
    """Do the work once on so many rows."""
    act = subject.prepare(rows)
    seconds, memory = watch(lambda: time_once(act, clock))
    return Probe(rows, seconds, memory)


def take_figure(
    subject: Subject, rows: int, seconds: float, calibrate: Calibrate, clock: Clock
) -> Figure:
    """Count operations and memory on a first pass, which warms up for those that are timed."""
    parts = parts_of(rows, subject.rows)
    acts = [subject.prepare(part) for part in parts]
    seen = [watch(partial(count_flops, act)) for act in acts]
    before = calibrate(clock)
    timings = measure(acts, seconds, clock)
    calibration = join(before, calibrate(clock))
    samples = [
        Sample(part, *once, timing) for part, once, timing in zip(parts, seen, timings, strict=True)
    ]
    whole = extrapolate(samples, subject.rows, calibration)
    return Figure(
        name=subject.name,
        kind=subject.kind,
        batch=subject.rows,
        steps=subject.steps,
        rows=rows,
        fewer=parts[0] if len(parts) > 1 else 0,
        fixed=whole.fixed,
        seconds=whole.timing,
        cal=whole.timing.median / calibration.seconds,
        steps_per_second=subject.rows * subject.steps / whole.timing.median,
        flops=whole.flops.total,
        share=whole.flops.seconds(calibration) / whole.timing.median,
        memory=whole.memory,
        calibration=calibration,
    )
