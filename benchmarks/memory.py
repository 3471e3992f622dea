"""Compare predicted with measured memory of CPU updates at `paper` size.

    python benchmarks/memory.py [RECIPE ...] [--write]

The measurement runs a whole batch and takes minutes and gigabytes. Each recipe has a process of its
own, since torch's profiler knows only what was allocated after its first start. With --write the
table goes to docs/gpu.md.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

RECIPES = ("storm", "step-vq-m", "ppo")
PAGE = Path(__file__).parents[1] / "docs" / "gpu.md"
BEGIN, END = "<!-- memory -->\n", "<!-- end of memory -->\n"


def compare(name: str) -> dict[str, Any]:
    """Bytes of both, in this process."""
    import torch

    from tokenworlds.agent import Agent
    from tokenworlds.benchmarking.memory import measure_memory, predict_memory
    from tokenworlds.core.types import ActionSpace, FrameShape
    from tokenworlds.recipes.catalogue import load

    torch.set_num_threads(1)
    recipe = load(name, "paper").recipe
    shape = FrameShape(recipe.resolution, recipe.resolution, 1 if recipe.grey else 3)
    measured = measure_memory(Agent.build(recipe, shape, ActionSpace(4)), recipe)
    predicted = predict_memory(recipe, shape, ActionSpace(4))
    return {"measured": asdict(measured), "predicted": asdict(predicted)}


def rows(name: str, found: dict[str, Any]) -> list[str]:
    lines = []
    for learner, added in found["measured"]["added"].items():
        measured = found["measured"]["resident"] + added
        predicted = found["predicted"]["resident"] + found["predicted"]["added"][learner]
        cells = (f"`{name}`", learner, f"{predicted / 1e9:.2f} GB", f"{measured / 1e9:.2f} GB")
        lines.append(f"| {' | '.join(cells)} | {predicted / measured - 1:+.1%} |")
    return lines


def main(words: list[str]) -> None:
    names = [word for word in words if word != "--write"] or list(RECIPES)
    lines = ["| recipe at `paper` | update of | predicted | measured | difference |"]
    lines.append("|---|---|---|---|---|")
    for name in names:
        command = [sys.executable, __file__, "--one", name]
        quiet = {**os.environ, "KINETO_LOG_LEVEL": "99"}
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=quiet)
        lines += rows(name, json.loads(done.stdout))
        print(*lines[-len(json.loads(done.stdout)["measured"]["added"]) :], sep="\n", flush=True)
    if "--write" in words:
        head, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, tail = rest.partition(END)
        PAGE.write_text(head + BEGIN + "\n" + "\n".join(lines) + "\n\n" + END + tail)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(compare(sys.argv[2])))
    else:
        main(sys.argv[1:])
