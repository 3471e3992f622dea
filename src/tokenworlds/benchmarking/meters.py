"""Measure a task: repeated timings, the calibration unit `cal`, operations and memory."""

import contextlib
import ctypes
import re
import resource
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode, flop_registry

Task = Callable[[], object]
Output = TypeVar("Output")

MIN_REPEATS = 3
STABLE_REPEATS = 9
TOLERANCE = 0.02
"""Timings are stable if the interquartile range is at most this share of the median."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one repeat: median and quartiles."""

    median: float
    lower: float
    upper: float
    repeats: int

    @property
    def half_range(self) -> float:
        """Half the interquartile range, in seconds."""
        return (self.upper - self.lower) / 2

    @property
    def spread(self) -> float:
        """Half the interquartile range as a share of the median."""
        return self.half_range / self.median if self.median else 0.0

    def scaled(self, factor: float) -> "Timing":
        return Timing(self.median * factor, self.lower * factor, self.upper * factor, self.repeats)


def time_repeats(tasks: Sequence[Task], seconds: float) -> list[Timing]:
    """Repeat the tasks, three times at least, until the times are stable or `seconds` are spent.

    The tasks alternate, so that a change of machine load affects all of them. The last task decides
    when to stop.
    """
    times: list[list[float]] = [[] for _ in tasks]
    while not is_enough(times[-1], seconds):
        for task, own in zip(tasks, times, strict=True):
            own.append(time_once(task))
    return [summarise(own) for own in times]


def time_once(task: Task) -> float:
    begin = perf_counter()
    task()
    return perf_counter() - begin


def is_enough(times: Sequence[float], seconds: float) -> bool:
    if len(times) < MIN_REPEATS:
        return False
    if sum(times) >= seconds:
        return True
    timing = summarise(times)
    return len(times) >= STABLE_REPEATS and timing.upper - timing.lower <= TOLERANCE * timing.median


def summarise(times: Sequence[float]) -> Timing:
    lower, median, upper = statistics.quantiles(times, n=4, method="inclusive")
    return Timing(median, lower, upper, len(times))


CALIBRATION_REPEATS = 5
CONVOLUTION_FLOPS = 2 * 2 * 64 * (14 * 14) * 128 * 64 * 5**2
"""Forward, and backward to the weights; the input needs no gradient."""
MATMUL_FLOPS = 20 * 2 * 1024**3


@dataclass(frozen=True, slots=True)
class Calibration:
    """The seconds of one `cal`, and the operations per second of its two halves.

    `spread` is half the interquartile range as a share of the seconds.
    """

    seconds: float
    spread: float
    matmul_rate: float
    convolution_rate: float


class ReferenceTask:
    """The task that defines the unit `cal`: a convolution forward and backward, and matmuls.

    An update spends most of its time on such operations. Seconds change with the machine and its
    load; a cost in cal changes little.
    """

    def __init__(self) -> None:
        self.layer = nn.Conv2d(64, 128, 5, stride=2)
        self.image = torch.randn(64, 64, 32, 32)
        self.left, self.right = torch.randn(1024, 1024), torch.randn(1024, 1024)

    def convolve(self) -> None:
        self.layer.zero_grad(set_to_none=True)
        self.layer(self.image).sum().backward()

    def multiply(self) -> None:
        for _ in range(20):
            torch.mm(self.left, self.right)


def calibrate() -> Calibration:
    """Time the reference task: the median of five repeats after a warm-up."""
    task = ReferenceTask()
    task.convolve()
    task.multiply()
    runs = range(CALIBRATION_REPEATS)
    times = [(time_once(task.convolve), time_once(task.multiply)) for _ in runs]
    convolution, matmul = (statistics.median(part) for part in zip(*times, strict=True))
    whole = summarise([sum(both) for both in times])
    return Calibration(
        seconds=whole.median,
        spread=whole.spread,
        matmul_rate=MATMUL_FLOPS / matmul,
        convolution_rate=CONVOLUTION_FLOPS / convolution,
    )


def average_calibrations(before: Calibration, after: Calibration) -> Calibration:
    """The calibration of a task timed between the two; their difference counts as spread."""
    both = (before, after)
    seconds = statistics.mean(each.seconds for each in both)
    drift = abs(after.seconds - before.seconds) / 2 / seconds
    return Calibration(
        seconds=seconds,
        spread=max(drift, *(each.spread for each in both)),
        matmul_rate=statistics.harmonic_mean([each.matmul_rate for each in both]),
        convolution_rate=statistics.harmonic_mean([each.convolution_rate for each in both]),
    )


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations by kind; attention counts as matmuls."""

    matmul: float
    convolution: float

    @property
    def total(self) -> float:
        return self.matmul + self.convolution

    def seconds(self, calibration: Calibration) -> float:
        """The time of these operations at the rates of the reference task."""
        return (
            self.matmul / calibration.matmul_rate + self.convolution / calibration.convolution_rate
        )


aten = torch.ops.aten
CPU_FORMULAS = {
    aten.baddbmm_: flop_registry[aten.baddbmm],
    aten._scaled_dot_product_flash_attention_for_cpu: (
        flop_registry[aten._scaled_dot_product_flash_attention]
    ),
    aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        flop_registry[aten._scaled_dot_product_flash_attention_backward]
    ),
}
"""Operations that torch's counter lacks, with the formulas of their counterparts."""


class NoModuleTracker(contextlib.nullcontext[None]):
    """Replaces the counter's module tracker, whose hooks fail under `no_grad`."""

    parents = frozenset({"Global"})


def count_flops(task: Task) -> Flops:
    """Run a task and count its matmuls, convolutions and attention (masked entries included)."""
    counter = FlopCounterMode(display=False)
    counter.flop_registry |= CPU_FORMULAS
    counter.mod_tracker = NoModuleTracker()  # type: ignore[assignment]
    with counter:
        task()
    counts = {str(name): count for name, count in counter.flop_counts["Global"].items()}
    convolution = sum(count for name, count in counts.items() if "conv" in name)
    return Flops(float(sum(counts.values()) - convolution), float(convolution))


PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")
RESET_PEAK = "5"


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes that the process held `before` a task and at its `peak`.

    `available` is what the system could give before the task; None if the system does not say.
    """

    before: int
    peak: int
    available: int | None

    @property
    def growth(self) -> int:
        return max(self.peak - self.before, 0)

    def with_growth(self, growth: float) -> "MemoryUse":
        return MemoryUse(self.before, self.before + round(growth), self.available)

    def allows(self, factor: float) -> bool:
        """Whether `factor` times the growth fits in half of the available memory."""
        return self.available is None or 2 * self.growth * factor <= self.available


def watch_memory(task: Callable[[], Output]) -> tuple[Output, MemoryUse]:
    """Run a task and measure its memory.

    Only Linux reports current and available memory. Elsewhere the highest use so far replaces both
    `before` and `peak`.
    """
    release_memory()
    before, available = process_memory("VmRSS"), available_memory()
    with contextlib.suppress(OSError):
        (PROC / "self" / "clear_refs").write_text(RESET_PEAK)
    output = task()
    return output, MemoryUse(before, process_memory("VmHWM"), available)


def release_memory() -> None:
    """Return freed memory to the system, so that the next task is not charged for it."""
    if sys.platform.startswith("linux"):
        # Only glibc has malloc_trim.
        with contextlib.suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def process_memory(field: str) -> int:
    """A field of the process status in bytes; the highest use so far where there is none."""
    unit = 1 if sys.platform == "darwin" else 1024
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return read_kilobytes(PROC / "self" / "status", field) or highest


def available_memory() -> int | None:
    """Bytes that the machine can give, or the container if that is less."""
    limits = (read_kilobytes(PROC / "meminfo", "MemAvailable"), container_memory())
    return min((limit for limit in limits if limit is not None), default=None)


def container_memory() -> int | None:
    """What a control group has left of its limit, if it has one."""
    try:
        limit = int((CGROUP / "memory.max").read_text())
        return max(limit - int((CGROUP / "memory.current").read_text()), 0)
    except (OSError, ValueError):
        return None


def read_kilobytes(path: Path, field: str) -> int | None:
    """A field of a kernel file, in bytes."""
    try:
        found = re.search(rf"^{field}:\s*(\d+) kB", path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
