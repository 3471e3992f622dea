"""Compare the cost of a dream step of `git-storm` and `storm` at `paper` size.

    python benchmarks/dream_step.py [BATCH] [THREADS]

The two alternate step by step, so that other load on the machine affects both. `step` is the policy
and the world, `world` the world alone. `update` is a step of a behaviour update, with a share of
reading the eight steps before the dream.
"""

import statistics
import sys
import time

import torch

from tokenworlds.agent import Agent
from tokenworlds.core.process import prepare_process
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.recipes.catalogue import load
from tokenworlds.training.dry_run import blank_segment

RECIPES = ("storm", "git-storm")
ROUNDS = 9
WARM_UP = 8
ACTIONS = 18
CONTEXT = 8
HORIZON = 16


class Dreamer:
    """An agent in the middle of a dream."""

    def __init__(self, recipe: str, batch: int) -> None:
        torch.manual_seed(0)
        shape = FrameShape(64, 64)
        self.agent = Agent.build(load(recipe, "paper").recipe, shape, ActionSpace(ACTIONS))
        self.generator = torch.Generator().manual_seed(0)
        self.segment = blank_segment(self.agent, shape, batch, CONTEXT + 1)
        self.carry = self.agent.world.start(self.segment, WARM_UP + ROUNDS)
        self.view = self.agent.world.view(self.carry)

    def time_start(self) -> float:
        """Seconds to read the segment before a dream."""
        begin = time.perf_counter()
        self.agent.world.start(self.segment, HORIZON)
        return time.perf_counter() - begin

    def time_step(self) -> tuple[float, float]:
        """Seconds of one step, in total and of the world."""
        begin = time.perf_counter()
        action, _ = self.agent.behaviour.act(self.view, (), self.generator)
        acted = time.perf_counter()
        self.carry, _ = self.agent.world.step(self.carry, action, self.generator)
        self.view = self.agent.world.view(self.carry)
        assert self.view.feature is not None
        end = time.perf_counter()
        return end - begin, end - acted


def main(batch: int = 1024, threads: int = 0) -> None:
    """Print medians and ratios."""
    prepare_process()
    torch.set_num_threads(threads or torch.get_num_threads())
    dreamers = {recipe: Dreamer(recipe, batch) for recipe in RECIPES}
    times: dict[str, list[tuple[float, float]]] = {recipe: [] for recipe in RECIPES}
    for turn in range(WARM_UP + ROUNDS):
        for recipe, dreamer in dreamers.items():
            seconds = dreamer.time_step()
            if turn >= WARM_UP:
                times[recipe].append(seconds)
    print(f"batch {batch}, {torch.get_num_threads()} threads, median of {ROUNDS}")
    steps = [statistics.median(total for total, _ in times[recipe]) for recipe in RECIPES]
    worlds = [statistics.median(world for _, world in times[recipe]) for recipe in RECIPES]
    starts = [dreamers[recipe].time_start() / HORIZON for recipe in RECIPES]
    print_ratio("step", steps)
    print_ratio("world", worlds)
    print_ratio("update", [step + start for step, start in zip(steps, starts, strict=True)])


def print_ratio(name: str, seconds: list[float]) -> None:
    storm, git_storm = seconds
    print(
        f"{name:<6} storm {1e3 * storm:7.1f} ms  git-storm {1e3 * git_storm:7.1f} ms  "
        f"ratio {git_storm / storm:.2f}"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
