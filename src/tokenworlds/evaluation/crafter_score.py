"""The score of the Crafter benchmark (Hafner, 2022): how often each achievement was unlocked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tokenworlds.core.facts import ACHIEVEMENT


@dataclass(frozen=True, slots=True)
class CrafterScore:
    """In percent: the share of episodes with each achievement, and the score made from them."""

    score: float
    success: Mapping[str, float]

    def __str__(self) -> str:
        return f"{self.score:.1f} %"


def crafter_score(facts: Mapping[str, Sequence[float]]) -> CrafterScore | None:
    """The score of episodes whose facts count achievements; None if there are no such facts."""
    success = {
        name.removeprefix(ACHIEVEMENT): success_rate(counts)
        for name, counts in facts.items()
        if name.startswith(ACHIEVEMENT)
    }
    return CrafterScore(score_of_rates(list(success.values())), success) if success else None


def success_rate(counts: Sequence[float]) -> float:
    """Percentage of episodes that unlocked an achievement at least once."""
    return 100.0 * float(np.mean(np.asarray(counts) > 0))


def score_of_rates(rates: Sequence[float]) -> float:
    """exp(mean ln(1 + rate)) - 1, rates and score in percent: rare achievements weigh more."""
    return float(np.expm1(np.log1p(np.asarray(rates, float)).mean()))
