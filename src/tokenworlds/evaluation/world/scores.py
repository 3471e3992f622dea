"""Scores of predicted rewards, terminations and values, and the perplexities of codes."""

import math
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from tokenworlds.evaluation.world.images import mean, ratio

Values = Float[np.ndarray, " n"]
Figures = dict[str, Any]
BINS = 10


def detection(
    score: Values, event: Bool[np.ndarray, " n"], predicted: Bool[np.ndarray, " n"]
) -> Figures:
    """Precision and recall of a rare event, and the average precision of the score.

    Average precision is the mean, over the events, of the precision among all steps with a score
    at least as high; a score that knows nothing has the base rate.
    """
    hits = int((predicted & event).sum())
    return {
        "events": int(event.sum()),
        "steps": len(event),
        "base_rate": mean(event.astype(float)),
        "predicted_rate": mean(predicted.astype(float)),
        "precision": ratio(hits, int(predicted.sum())),
        "recall": ratio(hits, int(event.sum())),
        "average_precision": average_precision(score, event),
    }


def average_precision(score: Values, event: Bool[np.ndarray, " n"]) -> float | None:
    if not event.any():
        return None
    order = np.argsort(-score, kind="stable")
    ranked, levels = event[order], score[order]
    # Equal scores are one threshold: their order would be arbitrary.
    last = np.append(levels[1:] != levels[:-1], True)
    found, seen = np.cumsum(ranked)[last], np.flatnonzero(last) + 1
    gained = np.diff(found, prepend=0)
    return float((gained * found / seen).sum() / event.sum())


def reward_scores(predicted: Values, reward: Values) -> Figures:
    """Non-zero rewards as events, to be predicted with their sign.

    A reward counts as predicted if its magnitude exceeds half the median non-zero reward.
    """
    size = np.abs(reward[reward != 0])
    threshold = 0.5 * float(np.median(size)) if len(size) else 0.5
    large, right = np.abs(predicted) > threshold, np.sign(predicted) == np.sign(reward)
    event = reward != 0
    hits = int((large & event & right).sum())
    # A wrong sign is no detection: such an event ranks last.
    score = np.where(event & ~right, -1.0, np.abs(predicted))
    found = detection(score, event, large)
    return {
        **found,
        "precision": ratio(hits, int(large.sum())),
        "recall": ratio(hits, int(event.sum())),
        "threshold": threshold,
        "mean": mean(reward),
        "predicted_mean": mean(predicted),
        "mean_absolute_error": mean(np.abs(predicted - reward)),
        "explained_variance": explained_variance(predicted, reward),
    }


def termination_scores(chance: Values, terminated: Bool[np.ndarray, " n"]) -> Figures:
    """A termination counts as predicted if it is more likely than not."""
    found = detection(chance, terminated, chance > 0.5)
    error = (chance - terminated) ** 2
    return {**found, "predicted_mean": mean(chance), "brier": mean(error)}


def explained_variance(predicted: Values, real: Values) -> float | None:
    """1 - Var(real - predicted) / Var(real); None if nothing varies."""
    spread = real.var() if len(real) else 0.0
    return float(1 - (real - predicted).var() / spread) if spread > 0 else None


def calibration(predicted: Values, real: Values) -> Figures:
    """The line real = slope predicted + intercept, the correlation and the mean difference."""
    known = ~(np.isnan(predicted) | np.isnan(real))
    predicted, real = predicted[known], real[known]
    if len(real) < 2:
        return {"steps": len(real)}
    spread, spread_real = predicted.std(), real.std()
    together = float(((predicted - predicted.mean()) * (real - real.mean())).mean())
    slope = ratio(together, float(spread**2)) if spread > 1e-6 else None
    known_spread = spread > 1e-6 and spread_real > 1e-6
    return {
        "steps": len(real),
        "slope": slope,
        "correlation": together / float(spread * spread_real) if known_spread else None,
        "bias": float((predicted - real).mean()),
        "mean_absolute_error": float(np.abs(predicted - real).mean()),
        "predicted_deviation": float(spread),
        "return_deviation": float(spread_real),
        "explained_variance": explained_variance(predicted, real),
        "bins": value_bins(predicted, real),
    }


def value_bins(predicted: Values, real: Values) -> list[Figures]:
    """Equally many steps in each bin, in the order of their predicted values."""
    parts = np.array_split(np.argsort(predicted, kind="stable"), min(BINS, len(predicted)))
    return [
        {
            "predicted": float(predicted[part].mean()),
            "return": float(real[part].mean()),
            "deviation": float(real[part].std()),
            "steps": len(part),
        }
        for part in parts
    ]


def discounted_returns(
    reward: Float[np.ndarray, "N T"],
    terminated: Bool[np.ndarray, "N T"],
    known: Bool[np.ndarray, "N T"],
    value: Float[np.ndarray, "N T"],
    discount: float,
) -> Float[np.ndarray, "N T"]:
    """R_t = r_t + discount (1 - terminated_t) R_{t+1}.

    Where the next state is not `known` and the step did not terminate (a time limit, or the end of
    the recording), the value of the step stands for its return, which is then NaN itself.
    """
    returns = np.full(reward.shape, np.nan)
    running = value[:, -1]
    for time in reversed(range(reward.shape[1])):
        found = reward[:, time] + discount * np.where(terminated[:, time], 0.0, running)
        certain = terminated[:, time] | known[:, time]
        returns[:, time] = np.where(certain, found, np.nan)
        running = np.where(certain, found, value[:, time])
    return returns


def code_figures(index: Int[np.ndarray, "n K"], vocabulary: int) -> Figures:
    """How the codes of frames are used; `index` has a row for each frame.

    `usage_perplexity` is exp of the entropy of all codes pooled. `unigram_nll` is the entropy of
    the codes of one position, averaged over positions: what a predictor without history pays.
    """
    counts = np.bincount(index.ravel(), minlength=vocabulary)
    places = [np.bincount(column, minlength=vocabulary) for column in index.T]
    return {
        "vocabulary": vocabulary,
        "tokens": index.shape[1],
        "used": int((counts > 0).sum()),
        "usage": float((counts > 0).mean()),
        "usage_perplexity": math.exp(entropy_of(counts)),
        "unigram_nll": float(np.mean([entropy_of(place) for place in places])),
    }


def entropy_of(counts: Int[np.ndarray, " V"]) -> float:
    """In nats."""
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())
