"""What a dream step of `git-storm` costs against one of `storm`, at `paper` size.

    python benchmarks/dream_step.py [BATCH] [THREADS]

Both dream side by side, turn by turn, so that whatever else the machine does weighs on both. A step
is the policy's choice and the world's answer; `world` is the answer alone. `update` is what a step
costs in an update of the behaviour: with its share of encoding the eight steps before the dream.
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
from tokenworlds.training.job import build_agent

RECIPES = ("storm", "git-storm")
ROUNDS = 9
WARM_UP = 8
ACTIONS = 18
CONTEXT = 8
HORIZON = 16


class Dreamer:
    """A agent in the middle of a dream."""

    def __init__(self, recipe: str, batch: int) -> None:
        torch.manual_seed(0)
        shape = FrameShape(64, 64)
        self.agent: Agent = build_agent(load(recipe, "paper").recipe, shape, ActionSpace(ACTIONS))
        self.generator = torch.Generator().manual_seed(0)
        self.segment = blank_segment(self.agent, shape, batch, CONTEXT + 1)
        self.carry = self.agent.world.start(self.segment, WARM_UP + ROUNDS)
        self.view = self.agent.world.view(self.carry)

    def start(self) -> float:
        """The seconds of making ready to dream."""
        begin = time.perf_counter()
        self.agent.world.start(self.segment, HORIZON)
        return time.perf_counter() - begin

    def step(self) -> tuple[float, float]:
        """Dream on; returns the seconds of the whole step and of the world's share of it."""
        begin = time.perf_counter()
        action, _ = self.agent.behaviour.act(self.view, (), self.generator)
        chosen = time.perf_counter()
        self.carry, dream = self.agent.world.step(self.carry, action, self.generator)
        self.view = dream
        assert dream.feature is not None
        end = time.perf_counter()
        return end - begin, end - chosen


def main(batch: int = 1024, threads: int = 0) -> None:
    """Print medians and ratios."""
    prepare_process()
    torch.set_num_threads(threads or torch.get_num_threads())
    dreamers = {recipe: Dreamer(recipe, batch) for recipe in RECIPES}
    times: dict[str, list[tuple[float, float]]] = {recipe: [] for recipe in RECIPES}
    for turn in range(WARM_UP + ROUNDS):
        for recipe, dreamer in dreamers.items():
            spent = dreamer.step()
            if turn >= WARM_UP:
                times[recipe].append(spent)
    print(f"batch {batch}, {torch.get_num_threads()} threads, median of {ROUNDS}")
    steps = [statistics.median(whole for whole, _ in times[recipe]) for recipe in RECIPES]
    worlds = [statistics.median(world for _, world in times[recipe]) for recipe in RECIPES]
    starts = [dreamers[recipe].start() / HORIZON for recipe in RECIPES]
    tell("step", steps)
    tell("world", worlds)
    tell("update", [step + start for step, start in zip(steps, starts, strict=True)])


def tell(name: str, seconds: list[float]) -> None:
    """Print a pair of times and their ratio."""
    storm, git_storm = seconds
    print(
        f"{name:<6} storm {1e3 * storm:7.1f} ms  git-storm {1e3 * git_storm:7.1f} ms  "
        f"ratio {git_storm / storm:.2f}"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
