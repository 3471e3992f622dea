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
        self._learned: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    @contextmanager
    def measure(self, kind: str, units: int) -> Iterator[None]:
        """Time a piece of work."""
        begin = time.perf_counter()
        yield
        spent = self._spent.setdefault(kind, deque(maxlen=WINDOW))
        spent.append((time.perf_counter() - begin, units))

    @contextmanager
    def learning(self, steps: int) -> Iterator[None]:
        """Time a phase of this many steps with the updates that belong to them."""
        begin = time.perf_counter()
        yield
        self._learned.append((time.perf_counter() - begin, steps))

    def rates(self) -> Mapping[str, float]:
        """Units per second of each kind of work, while at it."""
        return {kind: rate_of(spent) for kind, spent in self._spent.items()}

    def seconds_left(self, steps: int, episodes: int) -> float | None:
        """For steps with all that belongs to them, and episodes of evaluation.

        By the latest of each; unknown before anything was learned. Until a first evaluation has
        shown how long its episodes take, they are not counted.
        """
        if not self._learned:
            return None
        playing = self._spent.get(EPISODES)
        return steps / rate_of(self._learned) + (episodes / rate_of(playing) if playing else 0.0)


def rate_of(spent: deque[tuple[float, int]]) -> float:
    """Units per second."""
    seconds = sum(took for took, _ in spent)
    return sum(units for _, units in spent) / max(seconds, 1e-9)
