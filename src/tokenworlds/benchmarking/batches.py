"""How much of a batch is measured: as much as fits into the time and the memory there is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tokenworlds.benchmarking.extrapolation import Line, line_through
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

    The smallest is taken whatever it takes, and the next one if there is memory for it: it takes
    two to tell what grows with the rows.
    """
    rungs, seen = ladder(full), list[Probe]()
    rows = rungs[0]
    while rows < full:
        seen.append(probe(rows))
        larger = [more for more in rungs if more > rows and fits(seen[-2:], more, seconds)]
        if not larger and len(seen) == 1 and has_memory(seen[0], rungs[1]):
            larger = [rungs[1]]
        if not larger:
            return rows
        rows = larger[-1]
    return rows


def fits(seen: Sequence[Probe], rows: int, seconds: float) -> bool:
    """Whether more rows stay within time and memory: time grows along the line through two probes,
    after one as the rows do, which memory does at worst."""
    last = seen[-1]
    line = Line(0.0, last.seconds / last.rows)
    if len(seen) > 1:
        line = line_through((seen[0].rows, last.rows), (seen[0].seconds, last.seconds))
    return line.at(rows) <= seconds and has_memory(last, rows)


def has_memory(seen: Probe, rows: int) -> bool:
    """Whether there is memory enough for more rows."""
    return seen.memory.allows(rows / seen.rows)
