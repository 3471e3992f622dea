"""The papers' comparisons: pairs of agents on the same games with the same size and steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenworlds.evaluation import bootstrap, statistics
from tokenworlds.evaluation.bootstrap import Interval
from tokenworlds.evaluation.comparison.elements import NOTHING, number
from tokenworlds.evaluation.receipts.receipt import Receipt
from tokenworlds.evaluation.receipts.tables import table

PAIRS = (
    ("KL against cross-entropy", "step-vq-m", "step-vq-m-ce"),
    ("VQ against categorical", "step-vq-m", "cb-m"),
    ("MaskGIT against factorised prior", "git-storm", "storm"),
    ("image tokens against none", "delta-iris", "delta-iris-no-image-tokens"),
    ("two-dimensional tokens against a line", "swm", "swm-1d"),
    ("discrete against continuous", "swm", "swm-continuous"),
    ("two-dimensional discrete against a continuous vector", "swm", "swm-continuous-1d"),
    *(
        ("world model against PPO", recipe, "ppo")
        for recipe in (
            "step-vq-m", "cb-m", "storm", "git-storm", "iris", "delta-iris", "swm", "dreamer-v3",
        )
    ),
)  # fmt: skip
REPETITIONS = 10_000


@dataclass(frozen=True, slots=True)
class Setting:
    """What two receipts must share to be compared."""

    family: str
    protocol: str
    size: str
    steps: int


def comparisons(receipts: Sequence[Receipt]) -> str:
    """A row for each pair and setting in which both have finished runs."""
    rows = [
        row(question, first, second, setting, receipts)
        for question, first, second in PAIRS
        for setting in settings(first, second, receipts)
    ]
    if not rows:
        agents: dict[str, list[str]] = {}
        for question, first, second in PAIRS:
            agents.setdefault(question, [second]).append(first)
        found = [
            f"{question} ({', '.join(f'`{a}`' for a in of)})" for question, of in agents.items()
        ]
        return f"Not run yet: {'; '.join(found)}. The commands are below."
    columns = (
        "question", "first", "second", "benchmark", "size", "steps",
        "difference of mean returns [95 %]", "P(first > second) [95 %]", "seeds",
    )  # fmt: skip
    return table(columns, rows)


def settings(first: str, second: str, receipts: Sequence[Receipt]) -> list[Setting]:
    """The settings in which both agents have a game in common, in the order of the receipts."""
    of = [{place(r): r for r in receipts if usable(r, recipe)} for recipe in (first, second)]
    return list(dict.fromkeys(setting for setting, env in of[0] if (setting, env) in of[1]))


def usable(receipt: Receipt, recipe: str) -> bool:
    return receipt.agent == recipe and receipt.finished


def place(receipt: Receipt) -> tuple[Setting, str]:
    return Setting(receipt.family, receipt.protocol, receipt.size, receipt.steps), receipt.env


def row(
    question: str, first: str, second: str, setting: Setting, receipts: Sequence[Receipt]
) -> list[str]:
    x, y = (scores_of(recipe, setting, receipts) for recipe in (first, second))
    common = [game for game in x if game in y]
    x, y = {game: x[game] for game in common}, {game: y[game] for game in common}
    chance = statistics.probability_of_improvement(x, y)
    return [
        question,
        f"`{first}`",
        f"`{second}`",
        setting.family,
        setting.size,
        f"{setting.steps:,}",
        "; ".join(f"{game} {difference_text(x[game], y[game])}" for game in common),
        with_interval(chance, bootstrap.improvement_interval(x, y)),
        f"{sum(map(len, x.values()))} and {sum(map(len, y.values()))}",
    ]


def scores_of(recipe: str, setting: Setting, receipts: Sequence[Receipt]) -> dict[str, list[float]]:
    return {
        receipt.task: receipt.scores
        for receipt in receipts
        if usable(receipt, recipe) and place(receipt)[0] == setting
    }


def difference_text(x: Sequence[float], y: Sequence[float]) -> str:
    return with_interval(float(np.mean(x) - np.mean(y)), difference_interval(x, y))


def difference_interval(x: Sequence[float], y: Sequence[float]) -> Interval | None:
    """Seeds of both agents are resampled independently; None if one has a single seed."""
    if min(len(x), len(y)) < 2:
        return None
    draws = bootstrap.resampled([np.asarray(x, float), np.asarray(y, float)], REPETITIONS, seed=0)
    values = np.concatenate([a.mean(axis=1) - b.mean(axis=1) for a, b in draws])
    return bootstrap.interval(values, 0.95)


def with_interval(value: float, interval: Interval | None) -> str:
    span = NOTHING if interval is None else f"{number(interval.low)}, {number(interval.high)}"
    return f"{number(value)} [{span}]"
