"""Run folders for the viewer, without training: run.json of a real specification, and metrics."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenworlds.core.description import to_json
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.folder import FORMAT
from tokenworlds.runs.spec import RunSpec


def write_run(path: Path, *, recipe: str = "iris", env: str = "atari:Pong", seed: int = 3) -> Path:
    """A folder that lists like a run that was stopped at its first checkpoint."""
    found = load(recipe, "nano", env)
    spec = RunSpec(
        recipe_name=recipe,
        size=found.size,
        recipe=found.recipe,
        env=EnvSpec(env),
        seed=seed,
        threads=1,
    )
    (path / "checkpoints" / f"step-{0:09d}").mkdir(parents=True)
    (path / "run.json").write_text(json.dumps({"format": FORMAT, "run": to_json(spec)}))
    return path


def event(step: int, **metrics: float) -> dict[str, Any]:
    """A log event; `__` in a name stands for `/`."""
    return {
        "agent_steps": step,
        **{name.replace("__", "/"): each for name, each in metrics.items()},
    }


def append(run: Path, *found: Mapping[str, Any]) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in found)
