"""Accounts that nobody measured, in round numbers."""

from collections.abc import Mapping

from tokenworlds.benchmarking.calibration import Calibration
from tokenworlds.benchmarking.costs import Cost, Rest
from tokenworlds.benchmarking.documents import Account, Circumstances
from tokenworlds.benchmarking.figures import Figure
from tokenworlds.benchmarking.subjects import Kind
from tokenworlds.benchmarking.timing import Timing

CALIBRATION = Calibration(seconds=0.25, spread=0.01, matmul=2e11, convolution=1e11)
CIRCUMSTANCES = Circumstances(
    env="toy:catch",
    protocol="toy",
    threads=2,
    seconds=10.0,
    machine={"processor": "abacus", "packages": {"torch": "2.13.0"}},
)


def figure(name: str, seconds: float, kind: Kind = "update", rows: int = 16) -> Figure:
    """16 rows of 64 steps in so many seconds."""
    return Figure(
        name=name,
        kind=kind,
        batch=16,
        steps=64,
        rows=rows,
        fewer=0 if rows in (1, 16) else rows // 2,
        fixed=0.0,
        seconds=Timing(seconds, 0.9 * seconds, 1.1 * seconds, 5),
        cal=seconds / CALIBRATION.seconds,
        steps_per_second=1024 / seconds,
        flops=3e9,
        share=0.25,
        memory=512 * 2**20,
        calibration=CALIBRATION,
    )


def account(recipe: str, seconds: Mapping[str, float]) -> Account:
    """Each learner is updated once for every second step."""
    figures = [figure(name, each) for name, each in seconds.items()]
    cal = {each.name: each.cal / 2 for each in figures}
    halves = {name: each / 2 for name, each in seconds.items()}
    updates = dict.fromkeys(seconds, 0.5)
    total, time = sum(cal.values()), sum(halves.values())
    rest = Rest(total - cal.get("tokenizer", 0.0), time - halves.get("tokenizer", 0.0))
    cost = Cost(updates, cal, halves, total, time, rest)
    return Account(recipe, "paper", figures, cost)
