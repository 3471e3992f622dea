"""How fast a run works, and how long it will take."""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tokenworlds.core.progress import Progress

WINDOW = 50
EPISODES = "evaluation_episodes"


def work_of(progress: Progress) -> dict[str, int]:
    """Units of work by the names under which throughput is measured."""
    updates = {f"{name}_updates": count for name, count in progress.updates.items()}
    return {"agent_steps": progress.steps, **updates}


class Throughput:
    """Seconds and units of the last `WINDOW` measurements of each kind of work."""

    def __init__(self) -> None:
        self._measured: dict[str, deque[tuple[float, int]]] = {}
        self.expected: Mapping[str, float] = {}
        """Seconds of a unit of work, for kinds that have not been measured."""

    @contextmanager
    def measure(self, kind: str, units: int) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        measured = self._measured.setdefault(kind, deque(maxlen=WINDOW))
        measured.append((time.perf_counter() - begin, units))

    def rates(self) -> Mapping[str, float]:
        """Units of each kind of work per second spent on it."""
        return {kind: rate_of(measured) for kind, measured in self._measured.items()}

    def seconds_left(self, work: Mapping[str, int], episodes: int) -> float | None:
        """The time for units of each kind of work and for episodes of evaluation.

        None while some of the work was neither measured nor expected. Episodes count from the
        first evaluation on.
        """
        due = {kind: units for kind, units in work.items() if units}
        seconds = {**self.expected, **{kind: 1 / rate for kind, rate in self.rates().items()}}
        if not due.keys() <= seconds.keys():
            return None
        if EPISODES in self._measured:
            due[EPISODES] = episodes
        return sum((units * seconds[kind] for kind, units in due.items()), 0.0)


def rate_of(measured: deque[tuple[float, int]]) -> float:
    seconds = sum(took for took, _ in measured)
    return sum(units for _, units in measured) / max(seconds, 1e-9)
