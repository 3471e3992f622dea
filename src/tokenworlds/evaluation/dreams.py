"""Recorded segments beside a world model's reconstruction, tokens and dream of them.

After a few context frames of each episode the world imagines the rest under the recorded actions.
Where the dream differs from the record, the world is wrong or the environment is stochastic. A
world that supports it dreams again with uniformly sampled tokens (Δ-IRIS, figure 3).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int, UInt8
from torch import Generator, Tensor

from tokenworlds.agent import Agent
from tokenworlds.behaviours.imagination import Step, imagine
from tokenworlds.core.capabilities import SamplesRandomTokens
from tokenworlds.core.protocols import World
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import Reconstruction, Segment
from tokenworlds.replay.sampling import Windows, gather
from tokenworlds.replay.store import ReplayStore

Frames = UInt8[np.ndarray, "B T H W C"]
RANDOM_DREAM = "dream, random tokens"


@dataclass(frozen=True, slots=True)
class EpisodeSpan:
    """Steps `start` to `end` of one row, within one episode; imagined from step `dream` on."""

    row: int
    start: int
    dream: int
    end: int


@dataclass(frozen=True, slots=True)
class TokenRows:
    """The tokens of a segment on their grid, and the frames they decode to.

    Empty grid cells hold -1. `changed` marks tokens that differ from the previous frame's. With
    `shades` tokens are quantised numbers, shown from dark to light without marking changes.
    """

    reconstruction: Frames
    grid: Int[np.ndarray, "B T h w"]
    changed: Bool[np.ndarray, "B T h w"]
    vocabulary: int
    shades: bool = False

    @property
    def kinds(self) -> list[str]:
        return ["reconstruction", "tokens", *([] if self.shades else ["changed tokens"])]


@dataclass(frozen=True, slots=True)
class DreamRows:
    """Frames by row and step; `dream` and `random_dream` hold the real frames of the context.

    `predicted_reward` is NaN at steps whose reward the dream does not predict. `tokens` is None
    for a world without a tokenizer, `random_dream` for one that cannot sample random tokens.
    """

    real: Frames
    dream: Frames
    reward: Float[np.ndarray, "B T"]
    predicted_reward: Float[np.ndarray, "B T"]
    spans: tuple[EpisodeSpan, ...]
    tokens: TokenRows | None = None
    random_dream: Frames | None = None

    @property
    def kinds(self) -> list[str]:
        """The kinds of frame to show, from top to bottom."""
        return ["real", *(self.tokens.kinds if self.tokens else []), *self.dreams]

    @property
    def dreams(self) -> dict[str, Frames]:
        """The imagined frames by kind."""
        random = {} if self.random_dream is None else {RANDOM_DREAM: self.random_dream}
        return {"dream": self.dream, **random}

    @property
    def imagined(self) -> Bool[np.ndarray, "B T"]:
        imagined = np.zeros(self.real.shape[:2], np.bool_)
        for span in self.spans:
            imagined[span.row, span.dream : span.end] = True
        return imagined


@torch.no_grad()
def dream_rows(
    agent: Agent,
    segment: Segment,
    *,
    horizon: int,
    generator: Generator | None,
    told: Callable[[int], None] = lambda steps: None,
) -> DreamRows:
    """Imagine the last `horizon` steps of each row from the frames before them.

    A new episode cannot be predicted, so it starts with as many context frames of its own. `told`
    is called after each step with the steps that are left.
    """
    segment = segment.to(agent.device)
    length = segment.first.shape[1]
    context = length - horizon
    if context < 1:
        raise ValueError(f"a horizon of {horizon} leaves no context frame in {length} steps")
    world = agent.world
    spans = tuple(find_spans(segment.first & segment.mask, segment.mask, context))
    step = world.step_with_random_tokens if isinstance(world, SamplesRandomTokens) else None
    steps = sum(span.end - span.dream + 1 for span in spans)
    left = iter(range(steps * (1 if step is None else 2) - 1, -1, -1))

    def tick() -> None:
        told(next(left))

    dream, predicted_reward = imagine_spans(world, world.step, segment, spans, generator, tick)
    reconstruction = world.reconstruct(segment)
    return DreamRows(
        real=segment.frame.cpu().numpy(),
        dream=dream,
        reward=segment.reward.double().cpu().numpy(),
        predicted_reward=predicted_reward,
        spans=spans,
        tokens=None if reconstruction is None else token_rows(reconstruction, spans),
        random_dream=step and imagine_spans(world, step, segment, spans, generator, tick)[0],
    )


def find_spans(
    first: Bool[Tensor, "B T"], mask: Bool[Tensor, "B T"], context: int
) -> Iterator[EpisodeSpan]:
    """The spans of each row, without padding."""
    for row in range(len(first)):
        start = None
        for time in range(first.shape[1] + 1):
            over = time == first.shape[1] or not mask[row, time]
            if start is not None and (over or first[row, time]):
                yield EpisodeSpan(row, start, min(start + context, time), time)
                start = None
            if start is None and not over:
                start = time


def imagine_spans(
    world: World,
    step: Step,
    segment: Segment,
    spans: tuple[EpisodeSpan, ...],
    generator: Generator | None,
    tick: Callable[[], None] = lambda: None,
) -> tuple[Frames, Float[np.ndarray, "B T"]]:
    """The segment's frames with the imagined ones in place, and the predicted rewards."""
    frames = segment.frame.cpu().numpy().copy()
    reward = np.full(frames.shape[:2], np.nan)
    for span in spans:
        imagined, rewards = imagine_span(world, step, segment, span, generator, tick)
        frames[span.row, span.dream : span.end] = to_uint8(imagined)
        reward[span.row, span.dream - 1 : span.end] = rewards.cpu().numpy()
    return frames, reward


def imagine_span(
    world: World,
    step: Step,
    segment: Segment,
    span: EpisodeSpan,
    generator: Generator | None,
    tick: Callable[[], None] = lambda: None,
) -> tuple[Float[Tensor, "T C H W"], Float[Tensor, " t"]]:
    """The frames from `span.dream` on, and the rewards from the last context step on."""
    row = slice(span.row, span.row + 1)
    context = map_tensors(lambda leaf: leaf[row, span.start : span.dream], segment)
    steps = span.end - span.dream + 1
    actions = iter(segment.action[span.row, span.dream - 1 : span.end].unsqueeze(1))
    imagined = imagine(
        world,
        world.start(context, steps),
        read=lambda view: view,
        act=lambda _: next(actions),
        steps=steps,
        generator=generator,
        step=step,
    )
    frames, rewards = [], []
    for each in imagined:
        frames.append(each.after.frame)
        rewards.append(each.outcome.reward)
        tick()
    return torch.cat(frames)[:-1], torch.cat(rewards)


def token_rows(reconstruction: Reconstruction, spans: tuple[EpisodeSpan, ...]) -> TokenRows:
    grid = to_grid(reconstruction.index.cpu().numpy(), reconstruction.grid)
    return TokenRows(
        to_uint8(reconstruction.frame),
        grid,
        find_changed(grid, spans),
        reconstruction.vocabulary,
        reconstruction.shades,
    )


def find_changed(
    grid: Int[np.ndarray, "B T h w"], spans: tuple[EpisodeSpan, ...]
) -> Bool[np.ndarray, "B T h w"]:
    """Where a token differs from the previous frame's; False if that frame has no tokens."""
    changed = np.zeros(grid.shape, np.bool_)
    for span in spans:
        tokens = grid[span.row, span.start : span.end]
        differs = (tokens[1:] != tokens[:-1]) & (tokens[:-1] >= 0)
        changed[span.row, span.start + 1 : span.end] = differs
    return changed


def to_grid(
    index: Int[np.ndarray, "*rest K"], shape: tuple[int, int] | None = None
) -> Int[np.ndarray, "*rest h w"]:
    """Tokens on a grid, by default a nearly square one; empty cells hold -1."""
    tokens = index.shape[-1]
    width = math.ceil(math.sqrt(tokens))
    height, width = shape or (math.ceil(tokens / width), width)
    padding = [(0, 0)] * (index.ndim - 1) + [(0, height * width - tokens)]
    padded = np.pad(index, padding, constant_values=-1)
    return rearrange(padded, "... (h w) -> ... h w", h=height)


def to_uint8(frames: Float[Tensor, "*rest C H W"]) -> UInt8[np.ndarray, "*rest H W C"]:
    """Frames in [0, 1] to bytes, channels last."""
    bytes_ = frames.mul(255).round().clamp(0, 255).to(torch.uint8)
    return rearrange(bytes_, "... c h w -> ... h w c").cpu().numpy()


def sample_segment(
    store: ReplayStore, *, count: int, length: int, generator: np.random.Generator
) -> Segment:
    """Sample windows from the later half of replay, aligned to an episode start if one is near."""
    windows = Windows.of(store, length)
    low, high = [0, windows.starts // 2], [windows.num_envs, windows.starts]
    starts = generator.integers(low, high, size=(count, 2))
    for row, (env, time) in enumerate(starts.tolist()):
        starts[row, 1] = episode_start(store, env, time, length)
    return gather(store, starts, length)


def episode_start(store: ReplayStore, env: int, time: int, near: int) -> int:
    """The last episode start within `near` steps up to `time`; `time` if there is none."""
    begin = max(0, time - near)
    starts = np.flatnonzero(store.records["first"][env, begin : time + 1])
    return begin + int(starts[-1]) if len(starts) else time
