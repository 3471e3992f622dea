"""The same actions in the real environment and in the dream: where they part, and how fast."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from numpy.typing import NDArray
from torch import Generator

from tokenworlds.agent import Agent
from tokenworlds.core.errors import UserError
from tokenworlds.core.inspection import HoldsTokens
from tokenworlds.core.types import Segment
from tokenworlds.evaluation.dreams import to_uint8
from tokenworlds.evaluation.world.held_out import HeldOut, choose_starts, gather_before
from tokenworlds.evaluation.world.loops import Places, open_loop
from tokenworlds.evaluation.world.measurement import CONTEXT, reconstruct
from tokenworlds.viewer.documents import describe_outcome, to_data_url
from tokenworlds.worlds.real import Real

VISIBLE = 64
"""A pixel has parted if a channel differs by more than this from the reconstruction."""
MOST_STEPS = 64
STARTS, HORIZON, PIECE = 48, 16, 8
"""Dreams of the plot, their steps, and the dreams that one answer adds."""
RESAMPLES, LEVELS = 1000, (0.025, 0.975)


def has_model(agent: Agent) -> None:
    if isinstance(agent.world, Real):
        raise UserError("this agent has no world model to dream with")


@torch.no_grad()
def side_by_side(
    agent: Agent, segment: Segment, start: int, steps: int, generator: Generator
) -> list[dict[str, Any]]:
    """Dream on from a step of an episode under its own actions, beside what really followed."""
    has_model(agent)
    world, held = agent.world, HeldOut(segment, 0)
    end = int(held.ends[0, start]) if 0 <= start < segment.first.shape[1] else 0
    if start + 1 >= end:
        raise UserError(f"no step of the episode follows step {start:,}: start earlier")
    context = gather_before(held, np.array([[0, start]]), max(CONTEXT, world.frames))
    last = min(end - 1, start + min(steps, MOST_STEPS))
    carry, documents = world.start(context.to(agent.device), last - start), []
    for time in range(start, last):
        carry, outcome = world.step(carry, segment.action[:, time], generator)
        index = world.tokens_in(carry) if isinstance(world, HoldsTokens) else None
        frame = to_uint8(world.view(carry).frame)[0]
        error = mean_error(frame, segment.frame[0, time + 1].cpu().numpy())
        still = mean_error(*segment.frame[0, [start, time + 1]].cpu().numpy())
        documents.append(
            {
                "step": time + 1,
                "frame": to_data_url(frame),
                "pixels": frame,
                "error": error,
                "still": still,
                "tokens": None if index is None else index[0].tolist(),
                **describe_outcome(outcome),
            }
        )
    return documents


def mean_error(one: UInt8[np.ndarray, "H W C"], other: UInt8[np.ndarray, "H W C"]) -> float:
    """The mean absolute difference of pixels in [0, 1]."""
    return float(np.abs(one.astype(np.float32) - other).mean() / 255)


def has_parted(dream: UInt8[np.ndarray, "H W C"], real: UInt8[np.ndarray, "H W C"]) -> bool:
    """Whether a pixel differs visibly."""
    return bool((np.abs(dream.astype(np.int16) - real) > VISIBLE).any())


@dataclass
class Horizon:
    """Errors of dreams from many starts by the number of imagined steps.

    `dream`, `still` and `floor` have a row for each start: errors of the dream, of the frame that
    it started from, and of the real frame's reconstruction. Steps after an episode's end are NaN.
    """

    agent: Agent
    held: HeldOut
    generator: Generator
    rng: np.random.Generator
    done: int = 0
    rows: dict[str, list[NDArray[np.float64]]] = field(
        default_factory=lambda: {"dream": [], "still": [], "floor": []}
    )

    def __post_init__(self) -> None:
        has_model(self.agent)
        self.starts: Places = choose_starts(self.held, STARTS)
        if not len(self.starts):
            raise UserError("no episode has a second step: there is nothing to predict")
        found = reconstruct(self.agent, self.held)
        self.decoded = None if found is None else to_uint8(found.frame)

    def advance(self) -> dict[str, Any]:
        """Dream from some more starts; the curves over all dreams so far."""
        chosen = self.starts[self.done : self.done + PIECE]
        if len(chosen):
            self._dream(chosen)
        self.done += len(chosen)
        curves = {name: self._curve(np.stack(rows)) for name, rows in self.rows.items() if rows}
        return {"done": self.done, "starts": len(self.starts), "curves": curves}

    @torch.no_grad()
    def _dream(self, chosen: Places) -> None:
        held, context = self.held, max(CONTEXT, self.agent.world.frames)
        dreams = open_loop(
            self.agent, held, chosen, context=context, horizon=HORIZON, generator=self.generator
        )
        frames = held.segment.frame.cpu().numpy()
        real, start = following(frames, chosen), frames[chosen[:, 0], chosen[:, 1]]
        ends = held.ends[chosen[:, 0], chosen[:, 1]][:, None]
        seen = chosen[:, 1:] + 1 + np.arange(HORIZON) < ends
        predicted = dreams.frame
        self.rows["dream"] += list(errors(predicted, real, seen))
        self.rows["still"] += list(errors(start[:, None], real, seen))
        if self.decoded is not None:
            self.rows["floor"] += list(errors(following(self.decoded, chosen), real, seen))

    def _curve(self, values: Float[np.ndarray, "S h"]) -> dict[str, list[float | None]]:
        """The mean over starts by step, and its percentile bootstrap interval."""
        known = ~np.isnan(values)
        count, zeros = known.sum(0), np.where(known, values, 0.0)
        chosen = self.rng.integers(len(values), size=(RESAMPLES, len(values)))
        weight = np.stack([np.bincount(row, minlength=len(values)) for row in chosen])
        with np.errstate(invalid="ignore"):
            resampled = (weight @ zeros) / (weight @ known)
            mean = zeros.sum(0) / count
        enough = count > 1
        low, high = (quantiles(resampled, level, enough) for level in LEVELS)
        return {"mean": listed(mean), "low": listed(low), "high": listed(high)}


def quantiles(
    values: Float[np.ndarray, "R h"], level: float, enough: Bool[np.ndarray, " h"]
) -> Float[np.ndarray, " h"]:
    found = np.full(values.shape[1], np.nan)
    if enough.any():
        found[enough] = np.nanquantile(values[:, enough], level, axis=0)
    return found


def listed(values: Float[np.ndarray, " h"]) -> list[float | None]:
    """JSON has no NaN."""
    return [None if np.isnan(each) else float(f"{each:.6g}") for each in values]


def errors(
    predicted: UInt8[np.ndarray, "S T H W C"],
    real: UInt8[np.ndarray, "S h H W C"],
    seen: Bool[np.ndarray, "S h"],
) -> Float[np.ndarray, "S h"]:
    found = np.abs(predicted.astype(np.float32) - real).mean(axis=(2, 3, 4)) / 255
    return np.where(seen, found, np.nan)


def following(
    frames: UInt8[np.ndarray, "N T y x C"], starts: Places
) -> UInt8[np.ndarray, "W h y x C"]:
    """The frames after each start; the last one is repeated."""
    after = starts[:, 1:] + 1 + np.arange(HORIZON)
    found: NDArray[np.uint8] = frames[starts[:, :1], np.minimum(after, frames.shape[1] - 1)]
    return found
