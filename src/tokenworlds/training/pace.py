"""How fast a run goes, and how long it will still take."""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

WINDOW = 50


class Pace:
    """Seconds spent and units done of each kind of work, of late."""

    def __init__(self) -> None:
        self._spent: dict[str, deque[tuple[float, int]]] = {}
        self._learned: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    @contextmanager
    def measure(self, kind: str, units: int) -> Iterator[None]:
        """Time a piece of work."""
        begin = time.perf_counter()
        yield
        spent = self._spent.setdefault(kind, deque(maxlen=WINDOW))
        spent.append((time.perf_counter() - begin, units))

    def mark(self, steps: int) -> None:
        """Note when a phase with updates was over, and how many steps there were by then."""
        self._learned.append((time.perf_counter(), steps))

    def rates(self) -> Mapping[str, float]:
        """Units per second of each kind of work, while at it."""
        return {
            kind: sum(units for _, units in spent) / max(sum(took for took, _ in spent), 1e-9)
            for kind, spent in self._spent.items()
        }

    def seconds_left(self, steps_left: int) -> float | None:
        """By the pace of the latest phases with everything they hold; unknown before two."""
        if len(self._learned) < 2:
            return None
        (begin, first), (end, last) = self._learned[0], self._learned[-1]
        return (end - begin) / max(last - first, 1) * steps_left
