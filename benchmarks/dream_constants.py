"""Time dreams on the CPU with and without the rewrites that it shares with devices.

    python benchmarks/dream_constants.py [RECIPE ...] [--rounds N]

Constants (core/constants.py) are kept or made anew at each step, and one-hots of actions are rows
of a kept matrix or made by `one_hot`. Both forms alternate in one process, dream by dream, so that
other load on the machine affects both.
"""

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional

from tokenworlds.agent import Agent
from tokenworlds.benchmarking.workloads import dream, random_segment
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.nets import distributions
from tokenworlds.nets.fast import tokens
from tokenworlds.recipes.catalogue import load

ROWS, CONTEXT, STEPS = 64, 8, 16


@contextmanager
def plain() -> Iterator[None]:
    """As it was before: everything is made at each step."""

    def encode(self: ActionSpace, action: Tensor) -> Tensor:
        if self.discrete:
            return functional.one_hot(action.long(), self.size).float()
        return action.float()

    def sum_rows(index: Tensor, table: Tensor) -> Tensor:
        count = index.shape[-1]
        numbers = index + torch.arange(count) * (len(table) // count)
        flat = numbers.reshape(-1, count)
        summed = functional.embedding_bag(flat, table, mode="sum")
        return summed.reshape(*index.shape[:-1], -1)

    def spaced(low: float, high: float, count: int, dtype: torch.dtype, device: object) -> Tensor:
        return torch.linspace(low, high, count, dtype=dtype)

    with ExitStack() as stack:
        stack.enter_context(patch.object(ActionSpace, "encode", encode))
        stack.enter_context(patch.object(distributions, "spaced", spaced))
        stack.enter_context(patch.object(tokens, "sum_rows", sum_rows))
        from tokenworlds.mixers import projection

        stack.enter_context(patch.object(projection, "sum_rows", sum_rows))
        yield


def time_dream(agent: Agent) -> float:
    generator = torch.Generator().manual_seed(0)
    space = agent.action_space
    segment = random_segment(agent.frame_shape, space, ROWS, CONTEXT, generator)
    begin = time.process_time()
    dream(agent, segment, STEPS, generator)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recipes", nargs="*", default=["step-vq-m", "storm", "dreamer-v3"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--size", default="nano")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.recipes:
        recipe = load(name, options.size).recipe
        torch.manual_seed(0)
        shape = FrameShape(recipe.resolution, recipe.resolution, 1 if recipe.grey else 3)
        agent = Agent.build(recipe, shape, ActionSpace(4))
        times: dict[str, list[float]] = {"before": [], "after": []}
        for _ in range(options.rounds):
            for form, found in times.items():
                with plain() if form == "before" else nullcontext():
                    found.append(time_dream(agent))
        before, after = (statistics.median(each[1:]) for each in times.values())
        ratio = [b / a for b, a in zip(times["before"][1:], times["after"][1:], strict=True)]
        print(
            f"{name:12} before {1e3 * before:8.1f} ms   after {1e3 * after:8.1f} ms   "
            f"speedup {statistics.median(ratio):.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
