"""How long something takes: repeated until the times agree, or until the patience is spent."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

LEAST = 3
"""Repeats without which there is no spread."""
ENOUGH = 9
"""Repeats whose agreement is no chance."""
AGREEMENT = 0.02
"""The share of the median that the quartiles of times in agreement are apart."""

Act = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one repeat: the median and the quartiles around it."""

    median: float
    lower: float
    upper: float
    repeats: int

    @property
    def distance(self) -> float:
        """Half of that between the quartiles, in seconds."""
        return (self.upper - self.lower) / 2

    @property
    def spread(self) -> float:
        """The same as a share of the median."""
        return self.distance / self.median if self.median else 0.0

    def scaled(self, factor: float) -> "Timing":
        """The same for so many times the work."""
        return Timing(self.median * factor, self.lower * factor, self.upper * factor, self.repeats)


def measure(acts: Sequence[Act], seconds: float, clock: Clock = perf_counter) -> list[Timing]:
    """Act over and over, thrice at least, until the times agree or the seconds are spent.

    Several acts take turns, so that a busier hour is all of theirs; the last decides.
    """
    times: list[list[float]] = [[] for _ in acts]
    while not is_enough(times[-1], seconds):
        for act, own in zip(acts, times, strict=True):
            own.append(time_once(act, clock))
    return list(map(summarise, times))


def time_once(act: Act, clock: Clock = perf_counter) -> float:
    """The seconds of acting once."""
    begin = clock()
    act()
    return clock() - begin


def is_enough(times: Sequence[float], seconds: float) -> bool:
    """Whether there is no need, or no time, for another repeat."""
    if len(times) < LEAST:
        return False
    if sum(times) >= seconds:
        return True
    timing = summarise(times)
    return len(times) >= ENOUGH and timing.upper - timing.lower <= AGREEMENT * timing.median


def summarise(times: Sequence[float]) -> Timing:
    """Median and quartiles, both of which single times have reached or lie between."""
    lower, median, upper = statistics.quantiles(times, n=4, method="inclusive")
    return Timing(median, lower, upper, len(times))
