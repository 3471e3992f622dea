"""Held-out episodes: the agent plays new games, and windows of them are chosen to dream from."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from tokenworlds.agent import Agent
from tokenworlds.core.seeding import torch_generator
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import Segment
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.envs.vector import VectorEnv, VectorStep

ENVIRONMENTS = 8
STEPS = 256
"""Steps of each environment, if no number of episodes is given."""
LONGEST = 1024
"""Steps of each environment at most: frames are kept in memory."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Steps in the order they were played, a row for each environment.

    `finished` counts the games that were played to their end.
    """

    segment: Segment
    finished: int

    @property
    def follows(self) -> Bool[np.ndarray, "N T"]:
        """Whether a step is real and continues the episode of the step before it."""
        mask, first = (part.cpu().numpy() for part in (self.segment.mask, self.segment.first))
        follows: NDArray[np.bool_] = mask & ~first
        follows[:, 0] = False
        return follows

    @property
    def ends(self) -> Int[np.ndarray, "N T"]:
        """The first step after the episode that each step belongs to."""
        follows = self.follows
        ends = np.empty(follows.shape, np.int64)
        length = follows.shape[1]
        for time in reversed(range(length)):
            last = time == length - 1
            ends[:, time] = (
                time + 1 if last else np.where(follows[:, time + 1], ends[:, time + 1], time + 1)
            )
        return ends


def play_held_out(
    agent: Agent,
    env: EnvSpec,
    *,
    seed: int,
    temperature: float,
    episodes: int | None = None,
    longest: int = LONGEST,
) -> HeldOut:
    """Play this many games, or without a number `STEPS` steps in each of several environments.

    The environment is that of training, where a lost life may end an episode: a world is measured
    on the rewards and terminations that it learned to predict. The seed is not one of training.
    """
    count = ENVIRONMENTS if episodes is None else min(ENVIRONMENTS, episodes)
    shares = [len(part) for part in np.array_split(np.arange(episodes or 0), count)]
    games, recorded = np.zeros(count, int), list[tuple[NDArray[np.generic], ...]]()
    with VectorEnv(env, num_envs=count, seed=seed) as envs:
        generator = torch_generator(seed, "held-out", device=str(agent.device))
        carry = agent.initial(count)
        for _ in range(STEPS if episodes is None else longest):
            running = np.ones(count, bool) if episodes is None else games < shares
            if not running.any():
                break
            frame, first = envs.frames, envs.first
            chosen, carry = agent.act(frame, first, carry, generator, temperature)
            action = chosen.cpu().numpy()
            step = envs.step(action)
            games += step.over & running
            recorded.append((frame, first, action, *outcome(step), running))
    stacked = (torch.from_numpy(np.stack(part, 1)) for part in zip(*recorded, strict=True))
    return HeldOut(Segment(*stacked), int(games.sum()))


def outcome(step: VectorStep) -> tuple[NDArray[np.generic], ...]:
    return step.reward.astype(np.float32), step.terminated, step.truncated


def choose_starts(held: HeldOut, count: int) -> Int[np.ndarray, "W 2"]:
    """Row and step of evenly spread states from which at least one frame follows."""
    follows = held.follows
    places = np.argwhere(np.pad(follows[:, 1:], ((0, 0), (0, 1))))
    if len(places) <= count:
        return places
    chosen: NDArray[np.int64] = places[np.linspace(0, len(places) - 1, count).round().astype(int)]
    return chosen


def gather_before(held: HeldOut, places: Int[np.ndarray, "W 2"], length: int) -> Segment:
    """The `length` steps up to each place, all of its episode.

    Where an episode has fewer, its first step is repeated as padding, and masked.
    """
    follows = held.follows
    times = np.broadcast_to(np.arange(follows.shape[1]), follows.shape)
    begins = np.maximum.accumulate(np.where(follows, 0, times), axis=1)
    row, time = places[:, :1], places[:, 1:]
    wanted = time - np.arange(length)[::-1]
    begin = begins[row, time]
    chosen = torch.from_numpy(np.maximum(wanted, begin)), torch.from_numpy(row)
    segment = map_tensors(lambda leaf: leaf[chosen[1], chosen[0]], held.segment)
    real = torch.from_numpy(wanted >= begin)
    first = torch.from_numpy(wanted == begin)
    return Segment(
        segment.frame,
        first & segment.first,
        segment.action,
        segment.reward,
        segment.terminated,
        segment.truncated,
        segment.mask & real,
    )
