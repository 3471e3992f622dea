"""How fast a run goes, and how long it will still take."""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

WINDOW = 50
EPISODES = "evaluation_episodes"


class Pace:
    """Seconds spent and units done of each kind of work, of late."""

    def __init__(self) -> None:
        self._spent: dict[str, deque[tuple[float, int]]] = {}

    @contextmanager
    def measure(self, kind: str, units: int) -> Iterator[None]:
        """Time a piece of work."""
        begin = time.perf_counter()
        yield
        spent = self._spent.setdefault(kind, deque(maxlen=WINDOW))
        spent.append((time.perf_counter() - begin, units))

    def rates(self) -> Mapping[str, float]:
        """Units per second of each kind of work, while at it."""
        return {kind: rate_of(spent) for kind, spent in self._spent.items()}

    def seconds_left(self, work: Mapping[str, int], episodes: int) -> float | None:
        """For units of each kind of work, and episodes of evaluation, by the latest of each.

        Unknown while there is work of a kind that was never done. Only the episodes are not
        counted until a first evaluation has shown how long they take.
        """
        due = {kind: units for kind, units in work.items() if units}
        if not due.keys() <= self._spent.keys():
            return None
        if EPISODES in self._spent:
            due[EPISODES] = episodes
        return sum((units / rate_of(self._spent[kind]) for kind, units in due.items()), 0.0)


def rate_of(spent: deque[tuple[float, int]]) -> float:
    """Units per second."""
    seconds = sum(took for took, _ in spent)
    return sum(units for _, units in spent) / max(seconds, 1e-9)
