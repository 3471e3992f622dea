"""Updates that nobody measured, and curves of them."""

from tokenworlds.benchmarking.calibration import Calibration
from tokenworlds.benchmarking.growth import QUANTITIES, Curve, Growth, Omission, Point, Update
from tokenworlds.benchmarking.scaling import Survey
from tokenworlds.benchmarking.timing import Timing

CALIBRATION = Calibration(seconds=0.5, spread=0.0, matmul=1e6, convolution=1e5)


def update(seconds: float, memory: int = 2**20, codes: int | None = 2_000_000) -> Update:
    """In so many seconds, twice as many cal."""
    return Update(
        batch=4,
        steps=16,
        seconds=Timing(seconds, 0.9 * seconds, 1.1 * seconds, 5),
        cal=2 * seconds,
        flops=3e9,
        memory=memory,
        parameters=5_000_000,
        discretisation=codes,
        calibration=CALIBRATION,
    )


def curve(axis: str, *values: int, codes: int | None = 2_000_000) -> Curve:
    """A tenth of a second for each, and one value too many."""
    points = [Point(value, update(value / 10, codes=codes)) for value in values]
    left_out = [Omission(2 * values[-1], "it is too much")]
    growth = dict.fromkeys(QUANTITIES, Growth(1.0, 1.0))
    return Curve(axis, "world", f"the.{axis}", points, left_out, growth)


def survey(recipe: str, codes: int | None = 2_000_000) -> Survey:
    """Two axes out of five."""
    curves = [curve("batch", 1, 2, 4, codes=codes), curve("resolution", 64, 96, codes=codes)]
    return Survey(recipe, "paper", curves, ["length", "codes", "horizon"])
