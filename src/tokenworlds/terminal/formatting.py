"""Short texts for numbers: values, rates, durations and small curves."""

from collections.abc import Sequence
from itertools import pairwise

BARS = "▁▂▃▄▅▆▇█"
UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def value(number: float) -> str:
    """About four significant digits, with an exponent only for very large or small numbers."""
    size = abs(number)
    if size >= 1e6 or 0 < size < 1e-4:
        return f"{number:.2e}"
    digits = 0 if size >= 1e4 else 1 if size >= 1000 else 2 if size >= 10 else 3
    return f"{number:.{digits}f}" if size >= 0.1 or not size else f"{number:.4f}"


def rate(per_second: float) -> str:
    """Three significant digits with a unit prefix: 6.37k."""
    for size, unit in UNITS:
        if per_second >= size:
            return f"{per_second / size:.3g}{unit}"
    return f"{per_second:.3g}"


def duration(seconds: float) -> str:
    """4:12, 1:04:12 or 2 d 7 h."""
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def sparkline(values: Sequence[float], width: int) -> str:
    """A curve in at most `width` characters; each is the mean of an equal share of the values."""
    finite = [number for number in values if abs(number) < float("inf")]
    if not finite or width < 1:
        return ""
    edges = [round(i * len(finite) / width) for i in range(width + 1)]
    if len(finite) <= width:
        edges = list(range(len(finite) + 1))
    means = [sum(finite[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((mean - low) * scale)] for mean in means)
