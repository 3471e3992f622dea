"""Runs that are left and taken up, over and over, until they are done."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenworlds.envs.spec import EnvSpec
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.recipe import Recipe
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.loop import Loop


class Told:
    """A screen that keeps what it is told."""

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


def run(folder: Path, recipe: Recipe, phases: int) -> Told:
    """Train to the end, leaving and taking up the run after so many phases each time."""
    env = EnvSpec("catch", size=recipe.resolution, grey=recipe.grey)
    spec = RunSpec(recipe_name="mine", size="nano", recipe=recipe, env=env, seed=0, threads=1)
    place, told, finished = RunFolder.create(folder, spec), Told(), False
    while not finished:
        loop = Loop(spec, place, told)
        if not loop.resume():
            loop.begin()
        finished = loop.run(after(phases, told)).finished
        loop.close()
    return told


def after(phases: int, told: Told) -> Callable[[], bool]:
    """A wish to stop that comes after so many phases."""
    begun = len(told.shares)  # Told once before the first phase too.
    return lambda: len(told.shares) > begun + phases


def newest(folder: Path) -> tuple[str, bytes, bytes]:
    found = sorted((folder / "checkpoints").glob("step-*"))[-1]
    weights, sampler = found / "weights.safetensors", found / "sampler.safetensors"
    return found.name, weights.read_bytes(), sampler.read_bytes()
