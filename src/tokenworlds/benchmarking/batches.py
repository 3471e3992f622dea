"""How much of a batch is measured: as much as fits into the time and the memory there is."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tokenworlds.benchmarking.memory import Memory
from tokenworlds.core.errors import UserError

AUTO = "auto"
HALVINGS = 6


@dataclass(frozen=True, slots=True)
class Probe:
    """What work on so many rows took."""

    rows: int
    seconds: float
    memory: Memory

    def allows(self, rows: int, seconds: float) -> bool:
        """Whether more rows stay within time and memory: at worst both grow as the rows do."""
        factor = rows / self.rows
        return self.seconds * factor <= seconds and self.memory.allows(factor)


def read_fraction(text: str) -> Fraction | None:
    """A share of a batch as a user writes it: 1, 1/4, 0.25; None stands for `auto`."""
    if text == AUTO:
        return None
    try:
        share = Fraction(text)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share <= 1:
        raise UserError(f"--fraction takes auto, or a share of the batch such as 1/4, not {text!r}")
    return share


def share_of(full: int, fraction: Fraction) -> int:
    """So much of a batch, in whole rows."""
    return max(1, round(full * fraction))


def ladder(full: int) -> list[int]:
    """A batch and its halves, the smallest first."""
    return sorted({-(-full // 2**halvings) for halvings in range(HALVINGS + 1)})


def fit_rows(full: int, seconds: float, probe: Callable[[int], Probe]) -> int:
    """The largest of a batch and its halves that is predicted to stay within time and memory.

    Each prediction is made from fewer rows; the smallest is taken whatever it takes.
    """
    rungs = ladder(full)
    rows = rungs[0]
    while rows < full:
        found = probe(rows)
        larger = max((more for more in rungs if found.allows(more, seconds)), default=rows)
        if larger <= rows:
            return rows
        rows = larger
    return rows
