"""Runs that are stopped and resumed until they are done."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.recipe import Recipe
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.loop import Loop


class RecordingScreen:
    """A screen that records its calls."""

    def __init__(self) -> None:
        self.events: list[Mapping[str, Any]] = []
        self.shares: list[float] = []
        self.left: list[float | None] = []

    def event(self, event: Mapping[str, Any]) -> None:
        self.events.append(event)

    def progress(
        self, steps: int, rates: Mapping[str, float], seconds_left: float | None, share: float
    ) -> None:
        self.shares.append(share)
        self.left.append(seconds_left)

    def note(self, text: str) -> None:
        raise AssertionError(text)


def run(folder: Path, recipe: Recipe, phases: int) -> RecordingScreen:
    """Train to the end, with a stop and a resume after every `phases` phases."""
    env = EnvSpec("catch", size=recipe.resolution, grey=recipe.grey)
    spec = RunSpec(recipe_name="mine", size="nano", recipe=recipe, env=env, seed=0, threads=1)
    run_folder, screen, finished = RunFolder.create(folder, spec), RecordingScreen(), False
    while not finished:
        loop = Loop(spec, run_folder, screen)
        begin_or_resume(loop)
        finished = loop.run(after(phases, screen))
        loop.close()
    return screen


def begin_or_resume(loop: Loop) -> None:
    """Begin a run that was created, or resume it if it has begun."""
    if (loop.folder.path / "run.json").exists():
        loop.folder.lock()
        loop.resume()
    else:
        loop.begin()


def after(phases: int, screen: RecordingScreen) -> Callable[[], bool]:
    """A request to stop after `phases` phases."""
    begun = len(screen.shares)  # Progress is also shown before the first phase.
    return lambda: len(screen.shares) > begun + phases


def newest(folder: Path) -> tuple[str, bytes, bytes]:
    found = sorted((folder / "checkpoints").glob("step-*"))[-1]
    weights, sampler = found / "weights.safetensors", found / "sampler.safetensors"
    return found.name, weights.read_bytes(), sampler.read_bytes()
