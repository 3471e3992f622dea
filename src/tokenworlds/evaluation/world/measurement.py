"""Measure a world model on held-out episodes: all figures, as one JSON document."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Generator

from tokenworlds.agent import Agent
from tokenworlds.core.errors import NoModel, UserError
from tokenworlds.core.inspection import AssessesStates
from tokenworlds.core.types import ActionSpace, Reconstruction
from tokenworlds.evaluation.dreams import to_uint8
from tokenworlds.evaluation.world.actions import action_figures
from tokenworlds.evaluation.world.held_out import HeldOut, choose_starts
from tokenworlds.evaluation.world.images import FrameErrors, compare_frames, mean, ratio
from tokenworlds.evaluation.world.loops import (
    ClosedLoop,
    Numbers,
    Places,
    Predicted,
    TokenScores,
    closed_loop,
    open_loop,
)
from tokenworlds.evaluation.world.replayed import replay_figures, rewards_of
from tokenworlds.evaluation.world.scores import (
    Figures,
    calibration,
    code_figures,
    discounted_returns,
    reward_scores,
    termination_scores,
)

HORIZON = 48
CONTEXT = 8
"""Real frames before a dream; with the horizon, those of GIT-STORM's video prediction."""
WINDOWS = 48
CHUNK = 32
"""Steps that are reconstructed at once."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures, and the frames behind them for pictures and video distances.

    `real` and `imagined` are the frames after each start. Where `known` is False, the episode had
    ended, and they mean nothing.
    """

    figures: Figures
    real: NDArray[np.uint8]
    imagined: NDArray[np.uint8]
    known: Bool[np.ndarray, "W H"]


class Gauge:
    """The held-out steps and the predictions of them."""

    def __init__(self, agent: Agent, held: HeldOut, generator: Generator) -> None:
        if agent.behaviour.horizon == 0:
            raise NoModel("this agent has no world model: it learns from real steps alone")
        self.agent, self.held = agent, held
        self.frames: NDArray[np.uint8] = held.segment.frame.numpy()
        self.mask: NDArray[np.bool_] = held.segment.mask.numpy()
        self.average = self.frames[self.mask].mean(0, dtype=np.float64) / 255
        self.starts: Places = choose_starts(held, WINDOWS)
        if not len(self.starts):
            raise UserError("no held-out episode has a second step: there is nothing to predict")
        ahead = self.starts[:, 1:] + np.arange(HORIZON)
        ends = held.ends[self.starts[:, 0], self.starts[:, 1]][:, None]
        self.happened: Bool[np.ndarray, "W H"] = ahead < ends
        self.seen: Bool[np.ndarray, "W H"] = ahead + 1 < ends
        self.reached = int(self.happened.any(0).sum())
        self.closed: ClosedLoop = closed_loop(agent, held, generator)
        self.opened: Predicted = open_loop(
            agent, held, self.starts, context=CONTEXT, horizon=self.reached, generator=generator
        )
        self.absent: dict[str, str] = {}

    @property
    def targets(self) -> Places:
        """The steps whose frame follows another of its episode."""
        return np.argwhere(self.held.follows)

    def reward(self) -> Float[np.ndarray, "N T"]:
        """Real rewards as the world predicts them: their signs, if it knows no more."""
        return rewards_of(self.held, self.closed)

    def compare(self, predicted: NDArray[np.uint8], places: Places) -> FrameErrors:
        """Errors of frames predicted for these steps."""
        row, time = places.T
        return compare_frames(
            predicted, self.frames[row, time], self.frames[row, time - 1], self.average
        )


def measure(
    agent: Agent, held: HeldOut, generator: Generator, replay: HeldOut | None = None
) -> Measured:
    """All figures of a world model. `absent` gives the reason for each that it does not have.

    `replay` are steps that the world learned from; a world that predicts only these overfits.
    """
    gauge = Gauge(agent, held, generator)
    reconstruction = reconstruct(agent, held)
    figures: Figures = {
        "held_out": held_out_figures(gauge),
        "tokenizer": tokenizer_figures(gauge, reconstruction),
        "codes": codes_figures(gauge, reconstruction),
        "closed_loop": closed_figures(gauge),
        "open_loop": open_figures(gauge, reconstruction),
        "value": value_figures(gauge),
        "policy": policy_figures(gauge),
        "replay": recorded_figures(gauge, replay, generator),
        "actions": action_figures(agent, held, gauge.starts, context=CONTEXT, generator=generator),
    }
    figures["absent"] = gauge.absent
    real, known = real_windows(gauge)
    return Measured(figures, real, gauge.opened.frame, known)


def reconstruct(agent: Agent, held: HeldOut) -> Reconstruction | None:
    """All held-out frames encoded and decoded, some steps at a time with those before them."""
    length, parts = held.segment.first.shape[1], list[Reconstruction]()
    for begin in range(0, length, CHUNK):
        before = min(begin, CONTEXT)
        piece = held.segment.window(slice(begin - before, begin + CHUNK)).to(agent.device)
        found = agent.world.reconstruct(piece)
        if found is None:
            return None
        index, frame = found.index[:, before:].cpu(), found.frame[:, before:].cpu()
        parts.append(Reconstruction(index, frame, found.vocabulary, found.grid, found.shades))
    return Reconstruction(
        torch.cat([part.index for part in parts], 1),
        torch.cat([part.frame for part in parts], 1),
        parts[0].vocabulary,
        parts[0].grid,
        parts[0].shades,
    )


def held_out_figures(gauge: Gauge) -> Figures:
    segment = gauge.held.segment
    return {
        "games": gauge.held.finished,
        "steps": int(gauge.mask.sum()),
        "environments": len(gauge.mask),
        "windows": len(gauge.starts),
        "context": CONTEXT,
        "horizon": HORIZON,
        "longest_horizon": gauge.reached,
        "mean_reward": mean(segment.reward.double().numpy()[gauge.mask]),
    }


def tokenizer_figures(gauge: Gauge, reconstruction: Reconstruction | None) -> Figures | None:
    if reconstruction is None:
        gauge.absent["tokenizer"] = "the world does not reconstruct frames"
        return None
    row, time = gauge.targets.T
    frames = to_uint8(reconstruction.frame[row, time])
    return gauge.compare(frames, gauge.targets).summary()


def codes_figures(gauge: Gauge, reconstruction: Reconstruction | None) -> Figures | None:
    if reconstruction is None or reconstruction.shades:
        gauge.absent["codes"] = "the world has no discrete tokens"
        return None
    row, time = gauge.targets.T
    index = reconstruction.index[row, time].numpy()
    return code_figures(index, reconstruction.vocabulary)


def closed_figures(gauge: Gauge) -> Figures:
    """One step ahead of real steps."""
    predicted, row, time = gauge.closed.predicted, *gauge.targets.T
    frames = gauge.compare(predicted.frame[row, time - 1], gauge.targets).summary()
    unchanged = gauge.compare(gauge.frames[row, time - 1], gauge.targets).summary()
    tokens = token_figures(gauge, predicted.tokens, (row, time - 1))
    at_random = mean(gauge.closed.nll_at_random[row, time - 1])
    if tokens is not None and at_random is not None:
        tokens["random_action_nll"] = at_random
    return {
        "frames": frames,
        "persistence": unchanged,
        "tokens": tokens,
        "reward": reward_scores(predicted.reward[gauge.mask], gauge.reward()[gauge.mask]),
        "termination": closed_termination(gauge),
    }


def recorded_figures(gauge: Gauge, replay: HeldOut | None, generator: Generator) -> Figures | None:
    if replay is None or not replay.follows.any():
        gauge.absent["replay"] = "there are no recorded steps of training"
        return None
    return replay_figures(gauge.agent, replay, generator)


def closed_termination(gauge: Gauge) -> Figures | None:
    if not gauge.closed.predicted.terminates:
        gauge.absent["termination"] = "the world predicts no terminations"
        return None
    terminated = gauge.held.segment.terminated.numpy()[gauge.mask]
    return termination_scores(gauge.closed.predicted.terminated[gauge.mask], terminated)


def token_figures(
    gauge: Gauge, scores: TokenScores, place: tuple[NDArray[Any], ...]
) -> Figures | None:
    """Means over steps; nats per token, but the divergence per frame."""
    chosen = {field.name: mean(getattr(scores, field.name)[place]) for field in fields(scores)}
    if chosen["nll"] is None:
        gauge.absent["tokens"] = "the world gives no probabilities of tokens"
        return None
    if chosen["kl"] is None:
        gauge.absent["tokens.kl"] = gauge.absent["tokens.posterior_entropy"] = (
            "the world learns from the tokens themselves, not from a posterior"
        )
    figures = {
        "accuracy": chosen["accuracy"],
        "frame_accuracy": chosen["frame"],
        "nll": chosen["nll"],
        "prediction_perplexity": float(np.exp(chosen["nll"])),
        "prior_entropy": chosen["prior"],
        **changed_figures(gauge, scores, place),
    }
    if chosen["kl"] is not None and chosen["posterior"] is not None:
        figures["kl"], figures["posterior_entropy"] = chosen["kl"], chosen["posterior"]
        figures["posterior_perplexity"] = float(np.exp(chosen["posterior"]))
    return figures


def changed_figures(gauge: Gauge, scores: TokenScores, place: tuple[NDArray[Any], ...]) -> Figures:
    """Of the tokens that differ from those of the frame before: most of a frame stands still."""
    changed, right = scores.changed[place], scores.changed_right[place]
    known = ~np.isnan(changed)
    if not known.any():
        gauge.absent["tokens.changed_accuracy"] = "the world's tokens stand for changes themselves"
        return {}
    return {
        "changed_per_frame": float(changed[known].mean()),
        "changed_accuracy": ratio(float(right[known].sum()), float(changed[known].sum())),
    }


def open_figures(gauge: Gauge, reconstruction: Reconstruction | None) -> Figures:
    """By horizon: entry h - 1 is h steps after the context. None where nothing was recorded."""
    steps = range(gauge.reached)
    series: dict[str, list[Figures]] = {
        "frames": [frames_at(gauge, gauge.opened.frame[:, h], h) for h in steps],
        "closed_loop_frames": [frames_at(gauge, closed_frames(gauge, h), h) for h in steps],
        "persistence": [frames_at(gauge, start_frames(gauge), h) for h in steps],
        "tokens": [tokens_at(gauge, gauge.opened.tokens, h) for h in steps],
        "reward": [rewards_at(gauge, h) for h in steps],
    }
    if reconstruction is not None:
        decoded = to_uint8(reconstruction.frame)
        series["reconstruction"] = [
            frames_at(gauge, at_targets(gauge, decoded, h), h) for h in steps
        ]
    if gauge.opened.terminates:
        series["termination"] = [terminations_at(gauge, h) for h in steps]
    return {
        "frame_count": gauge.seen[:, : gauge.reached].sum(0).tolist(),
        "outcome_count": gauge.happened[:, : gauge.reached].sum(0).tolist(),
        **{name: by_horizon(each) for name, each in series.items()},
    }


def by_horizon(figures: list[Figures]) -> dict[str, list[float | int | None]]:
    names = dict.fromkeys(name for each in figures for name in each)
    return {name: [each.get(name) for each in figures] for name in names}


def start_frames(gauge: Gauge) -> NDArray[np.uint8]:
    frames: NDArray[np.uint8] = gauge.frames[gauge.starts[:, 0], gauge.starts[:, 1]]
    return frames


def at_targets(gauge: Gauge, frames: NDArray[np.uint8], ahead: int) -> NDArray[np.uint8]:
    """Frames of held-out steps, `ahead` + 1 steps after each start."""
    row, time = gauge.starts.T
    chosen: NDArray[np.uint8] = frames[row, np.minimum(time + ahead + 1, frames.shape[1] - 1)]
    return chosen


def closed_frames(gauge: Gauge, ahead: int) -> NDArray[np.uint8]:
    row, time = gauge.starts.T
    made = gauge.closed.predicted.frame
    chosen: NDArray[np.uint8] = made[row, np.minimum(time + ahead, made.shape[1] - 1)]
    return chosen


def frames_at(gauge: Gauge, predicted: NDArray[np.uint8], ahead: int) -> Figures:
    """Errors of the windows whose episode has a frame there."""
    chosen = gauge.seen[:, ahead]
    if not chosen.any():
        return {}
    places = gauge.starts[chosen] + np.array([0, ahead + 1])
    kept = ("mse", "psnr", "ssim", "changed_mse", "changed_explained")
    summary = gauge.compare(predicted[chosen], places).summary()
    return {name: summary[name] for name in kept}


def tokens_at(gauge: Gauge, scores: TokenScores, ahead: int) -> Figures:
    chosen = gauge.seen[:, ahead]
    names = {"accuracy": "accuracy", "frame": "frame_accuracy", "nll": "nll", "kl": "kl"}
    means = {new: mean(getattr(scores, old)[chosen, ahead]) for old, new in names.items()}
    changed = scores.changed[chosen, ahead]
    if not np.isnan(changed).any():
        means["changed_accuracy"] = ratio(
            float(scores.changed_right[chosen, ahead].sum()), float(changed.sum())
        )
    return {name: value for name, value in means.items() if value is not None}


def outcomes_at(gauge: Gauge, values: Numbers, ahead: int) -> Float[np.ndarray, " n"]:
    """Values of the real steps, `ahead` steps after each start."""
    chosen = gauge.happened[:, ahead]
    row, time = gauge.starts[chosen].T
    found: NDArray[np.float64] = values[row, time + ahead]
    return found


def rewards_at(gauge: Gauge, ahead: int) -> Figures:
    predicted = gauge.opened.reward[gauge.happened[:, ahead], ahead]
    figures = reward_scores(predicted, outcomes_at(gauge, gauge.reward(), ahead))
    names = ("events", "precision", "recall", "mean", "predicted_mean", "mean_absolute_error")
    return {name: figures[name] for name in names}


def terminations_at(gauge: Gauge, ahead: int) -> Figures:
    chance = gauge.opened.terminated[gauge.happened[:, ahead], ahead]
    terminated = gauge.held.segment.terminated.double().numpy()
    figures = termination_scores(chance, outcomes_at(gauge, terminated, ahead) > 0)
    names = ("events", "precision", "recall", "predicted_mean")
    return {name: figures[name] for name in names}


def value_figures(gauge: Gauge) -> Figures | None:
    """Predicted values against the discounted returns that came."""
    behaviour = gauge.agent.behaviour
    if not isinstance(behaviour, AssessesStates):
        gauge.absent["value"] = "the behaviour does not tell values"
        return None
    segment, follows = gauge.held.segment, gauge.held.follows
    terminated = segment.terminated.numpy()
    known = np.pad(follows[:, 1:], ((0, 0), (0, 1)))
    if not gauge.closed.predicted.terminates:
        # Its dreams never end, so its values reach into the next game.
        terminated, known = np.zeros_like(terminated), np.pad(gauge.mask[:, 1:], ((0, 0), (0, 1)))
    value = gauge.closed.value
    returns = discounted_returns(gauge.reward(), terminated, known, value, behaviour.discount)
    found = calibration(value[gauge.mask], returns[gauge.mask])
    return {"discount": behaviour.discount, **found}


def policy_figures(gauge: Gauge) -> Figures | None:
    behaviour = gauge.agent.behaviour
    if not isinstance(behaviour, AssessesStates):
        gauge.absent["policy"] = "the behaviour does not tell its entropy"
        return None
    space = gauge.agent.action_space
    figures: Figures = {
        "entropy": mean(gauge.closed.entropy[gauge.mask]),
        "uniform_entropy": uniform_entropy(space),
        "return_spread": behaviour.return_spread,
        "return_floor": behaviour.return_floor,
    }
    if behaviour.return_spread is None:
        for name in ("return_spread", "return_floor"):
            gauge.absent[f"policy.{name}"] = "the behaviour does not divide by a spread of returns"
    if gauge.closed.probabilities is not None:
        shares = gauge.closed.probabilities[gauge.mask].mean(axis=0)
        figures["marginal_entropy"] = float(-(shares * np.log(shares.clip(1e-12))).sum())
    if space.discrete:
        action = gauge.held.segment.action.numpy()[gauge.mask]
        counts = np.bincount(action, minlength=space.size)
        figures["action_shares"] = (counts / counts.sum()).tolist()
    return figures


def uniform_entropy(space: ActionSpace) -> float:
    """Of uniform actions, in nats: over the indices, or over [-1, 1] in each dimension."""
    return float(np.log(space.size)) if space.discrete else float(space.size * np.log(2))


def real_windows(gauge: Gauge) -> tuple[NDArray[np.uint8], Bool[np.ndarray, "W H"]]:
    frames = [at_targets(gauge, gauge.frames, h) for h in range(gauge.reached)]
    return np.stack(frames, 1), gauge.seen[:, : gauge.reached]
