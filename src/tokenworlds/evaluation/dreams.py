"""A recorded segment beside what a world makes of it: reconstruction, codes, and a dream.

After a few frames of each episode the world goes on by itself, under the recorded actions: where
dream and record part, the world was wrong (or the game is up to chance). A world of changes dreams
once more with codes drawn at random (Δ-IRIS, figure 3).
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
from tokenworlds.core.protocols import World
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import Carry, Dream, Recoded, Segment
from tokenworlds.replay.segments import Windows, gather
from tokenworlds.replay.store import ReplayStore

Frames = UInt8[np.ndarray, "B T H W C"]
Step = Callable[[Carry, Tensor, Generator | None], tuple[Carry, Dream]]
AT_RANDOM = "dream, codes at random"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps `begin` to `end` of one row, all of one episode; from `dream` on they are dreamt."""

    row: int
    begin: int
    dream: int
    end: int


@dataclass(frozen=True, slots=True)
class Coded:
    """Frames as codes hold them, and the codes on a grid, with -1 where it has places to spare.

    `changed` says where a code is another than in the frame before. With `shades` codes are in
    order, from dark to light, and there is no such thing as another.
    """

    reconstruction: Frames
    tiles: Int[np.ndarray, "B T h w"]
    changed: Bool[np.ndarray, "B T h w"]
    vocabulary: int
    shades: bool = False

    @property
    def kinds(self) -> list[str]:
        """The lines of a picture that show it."""
        return ["reconstruction", "codes", *([] if self.shades else ["changed"])]


@dataclass(frozen=True, slots=True)
class DreamRows:
    """Frames by row and time; `dream` holds the real frames where nothing was dreamt.

    `dreamt_reward` is what the dream expected of the action of a step, not a number where the
    dream had not begun. A world without a tokenizer has no codes to show, and few can draw theirs
    at random.
    """

    real: Frames
    dream: Frames
    reward: Float[np.ndarray, "B T"]
    dreamt_reward: Float[np.ndarray, "B T"]
    stretches: tuple[Stretch, ...]
    coded: Coded | None = None
    at_random: Frames | None = None

    @property
    def kinds(self) -> list[str]:
        """The lines of a picture, from above."""
        return ["real", *(self.coded.kinds if self.coded else []), *self.dreams]

    @property
    def dreams(self) -> dict[str, Frames]:
        """The lines that are dreamt, with their frames."""
        random = {} if self.at_random is None else {AT_RANDOM: self.at_random}
        return {"dream": self.dream, **random}


@torch.no_grad()
def dream_rows(
    agent: Agent, segment: Segment, *, horizon: int, generator: Generator | None
) -> DreamRows:
    """Dream the last `horizon` steps of each row from the frames before them.

    A new episode cannot be foreseen: its first frames, as many, are given again.
    """
    segment = segment.to(agent.device)
    context = segment.first.shape[1] - horizon
    if context < 1:
        raise ValueError(f"a horizon of {horizon} leaves nothing of {segment.first.shape[1]} steps")
    world = agent.world
    stretches = tuple(find_stretches(segment.first & segment.mask, segment.mask, context))
    dream, dreamt_reward = dream_all(world, world.step, segment, stretches, generator)
    guess: Step | None = getattr(world, "step_at_random", None)
    recoded = world.recode(segment)
    return DreamRows(
        real=segment.frame.cpu().numpy(),
        dream=dream,
        reward=segment.reward.double().cpu().numpy(),
        dreamt_reward=dreamt_reward,
        stretches=stretches,
        coded=None if recoded is None else lay_open(recoded, stretches),
        at_random=guess and dream_all(world, guess, segment, stretches, generator)[0],
    )


def find_stretches(
    first: Bool[Tensor, "B T"], mask: Bool[Tensor, "B T"], context: int
) -> Iterator[Stretch]:
    """Where episodes begin and end in each row, padding left out."""
    for row in range(len(first)):
        begin = None
        for time in range(first.shape[1] + 1):
            over = time == first.shape[1] or not mask[row, time]
            if begin is not None and (over or first[row, time]):
                yield Stretch(row, begin, min(begin + context, time), time)
                begin = None
            if begin is None and not over:
                begin = time


def dream_all(
    world: World,
    step: Step,
    segment: Segment,
    stretches: tuple[Stretch, ...],
    generator: Generator | None,
) -> tuple[Frames, Float[np.ndarray, "B T"]]:
    """The frames with each stretch dreamt step by step, and the rewards the dreams expect."""
    frames = segment.frame.cpu().numpy().copy()
    reward = np.full(frames.shape[:2], np.nan)
    for stretch in stretches:
        dreamt, rewards = dream_stretch(world, step, segment, stretch, generator)
        frames[stretch.row, stretch.dream : stretch.end] = to_bytes(dreamt)
        reward[stretch.row, stretch.dream - 1 : stretch.end] = rewards.cpu().numpy()
    return frames, reward


def dream_stretch(
    world: World, step: Step, segment: Segment, stretch: Stretch, generator: Generator | None
) -> tuple[Float[Tensor, "T C H W"], Float[Tensor, " t"]]:
    """The frames from `dream` on, and the reward of every action from the one before them."""
    given = cut(segment, stretch.row, stretch.begin, stretch.dream)
    carry = world.start(given, stretch.end - stretch.dream + 1)
    frames, rewards = [], []
    for time in range(stretch.dream - 1, stretch.end):
        action = segment.action[stretch.row : stretch.row + 1, time]
        carry, dream = step(carry, action, generator)
        rewards.append(dream.reward)
        frames.append(dream.frame)
    return torch.cat(frames)[:-1], torch.cat(rewards)


def cut(segment: Segment, row: int, begin: int, end: int) -> Segment:
    """Some steps of one row, as a batch of one."""
    return map_tensors(lambda part: part[row : row + 1, begin:end], segment)


def lay_open(recoded: Recoded, stretches: tuple[Stretch, ...]) -> Coded:
    """What codes hold of a segment, as it is shown."""
    tiles = lay_out(recoded.index.cpu().numpy(), recoded.grid)
    changed = find_changed(tiles, stretches)
    frames = to_bytes(recoded.frame)
    return Coded(frames, tiles, changed, recoded.vocabulary, recoded.shades)


def find_changed(
    tiles: Int[np.ndarray, "B T h w"], stretches: tuple[Stretch, ...]
) -> Bool[np.ndarray, "B T h w"]:
    """Where a code differs from that of the frame before, if its episode has one with codes."""
    changed = np.zeros(tiles.shape, np.bool_)
    for stretch in stretches:
        codes = tiles[stretch.row, stretch.begin : stretch.end]
        differs = (codes[1:] != codes[:-1]) & (codes[:-1] >= 0)
        changed[stretch.row, stretch.begin + 1 : stretch.end] = differs
    return changed


def lay_out(
    index: Int[np.ndarray, "*rest K"], grid: tuple[int, int] | None = None
) -> Int[np.ndarray, "*rest h w"]:
    """Codes on their grid, or on one that is nearly square, with -1 in what places are left."""
    tokens = index.shape[-1]
    width = math.ceil(math.sqrt(tokens))
    height, width = grid or (math.ceil(tokens / width), width)
    spare = [(0, 0)] * (index.ndim - 1) + [(0, height * width - tokens)]
    padded = np.pad(index, spare, constant_values=-1)
    return rearrange(padded, "... (h w) -> ... h w", h=height)


def to_bytes(frames: Float[Tensor, "*rest C H W"]) -> UInt8[np.ndarray, "*rest H W C"]:
    """Frames in [0, 1] as they are stored."""
    bytes_ = frames.mul(255).round().clamp(0, 255).to(torch.uint8)
    return rearrange(bytes_, "... c h w -> ... h w c").cpu().numpy()


def choose_segment(
    store: ReplayStore, *, count: int, length: int, generator: np.random.Generator
) -> Segment:
    """Windows of the later half of replay, moved back to the opening of their episode if near."""
    windows = Windows.of(store, length)
    low, high = [0, windows.starts // 2], [windows.num_envs, windows.starts]
    starts = generator.integers(low, high, size=(count, 2))
    for row, (stream, time) in enumerate(starts.tolist()):
        starts[row, 1] = opening(store, stream, time, length)
    return gather(store, starts, length)


def opening(store: ReplayStore, stream: int, time: int, near: int) -> int:
    """The last step up to this one that opens an episode; the step itself if none near does."""
    begin = max(0, time - near)
    opens = np.flatnonzero(store.records["first"][stream, begin : time + 1])
    return begin + int(opens[-1]) if len(opens) else time
