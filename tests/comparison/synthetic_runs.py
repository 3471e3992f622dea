"""Run folders with invented scores, written by the library's own writers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.evaluation.results import FILE, Result, write_result
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.checkpoint import Checkpoint
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.metrics import MetricsFile
from tokenworlds.runs.spec import RunSpec

STEPS = 1000


@dataclass(frozen=True, kw_only=True)
class Invented:
    """A run that rises from `start` to `end`, evaluated `evaluations` times on its way."""

    recipe: str = "step-vq-m"
    env: str = "catch"
    protocol: str = ""
    seed: int = 0
    steps: int = STEPS
    reached: int | None = None
    """The step at which the run was stopped; None if it is finished."""
    start: float = -1.0
    end: float = 1.0
    spread: float = 0.1
    evaluations: int = 10
    losses: int = 0
    """Loss terms in every event."""
    info: Any = None
    settings: Any = None
    parent: str = ""
    """The run that this one is a fork of."""


def write_run(path: Path, run: Invented) -> Path:
    spec = spec_of(run)
    folder = RunFolder(path)
    command = f"tokenworlds train {run.recipe} --env {run.env} --size nano --seed {run.seed}"
    if run.parent:
        command = f"tokenworlds train --from {run.parent} --set behaviour.horizon=9"
    folder.begin(spec, {"command": command, "parameters": {"total": 123_456}})
    folder.save(run.reached or run.steps, Checkpoint({}, {}), keep=2)
    folder.commit()
    write_metrics(path, run)
    if run.reached is None:
        write_result(path / FILE, replace(result_of(spec, run), checkpoint=folder.saved))
    folder.unlock()
    return path


def spec_of(run: Invented) -> RunSpec:
    recipe = replace(load(run.recipe, "nano").recipe, steps=run.steps, **(run.settings or {}))
    env = EnvSpec(run.env, run.protocol)
    return RunSpec(
        recipe_name=run.recipe, size="nano", recipe=recipe, env=env, seed=run.seed, threads=1
    )


def write_metrics(path: Path, run: Invented) -> None:
    rng = np.random.default_rng([run.seed, *run.env.encode(), *run.recipe.encode()])
    metrics = MetricsFile(path)
    for index in range(1, run.evaluations + 1):
        step = index * run.steps // (run.evaluations + 1)
        if step > (run.reached or run.steps):
            break
        share = step / run.steps
        value = run.start + (run.end - run.start) * share**0.7
        value += run.spread * abs(run.end - run.start) * rng.normal()
        losses = {f"world/loss/term_{i}": float(rng.random()) for i in range(run.losses)}
        metrics.write({"agent_steps": step, "collect/return": value, **losses})
        metrics.write({"agent_steps": step, "evaluation/return": value, "evaluation/episodes": 2})
    metrics.close()


def result_of(spec: RunSpec, run: Invented, episodes: int = 4) -> Result:
    rng = np.random.default_rng([run.seed, 1, *run.env.encode(), *run.recipe.encode()])
    scale = run.spread * abs(run.end - run.start)
    mean = run.end + scale * rng.normal()
    returns = (mean + scale * rng.normal(size=episodes)).tolist()
    return Result(
        recipe=run.recipe,
        size="nano",
        env=spec.env.name,
        protocol=spec.env.protocol,
        seed=run.seed,
        agent_steps=run.steps,
        updates=0,
        gradient_steps=0,
        temperature=spec.recipe.evaluation.temperature,
        returns=tuple(returns),
        random_returns=(run.start,) * episodes,
        info=run.info or {},
    )


def write_seeds(folder: Path, seeds: Sequence[int], **settings: Any) -> list[Path]:
    """Runs that differ in their seed."""
    runs = [Invented(seed=seed, **settings) for seed in seeds]
    names = [f"{run.recipe}-{run.env}-s{run.seed}".replace(":", "-") for run in runs]
    return [write_run(folder / name, run) for name, run in zip(names, runs, strict=True)]
