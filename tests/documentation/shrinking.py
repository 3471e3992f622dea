"""Smaller numbers for the runs of the pages. Options that a page gives with --set still hold.

| what | on a page | in a test |
|---|---|---|
| steps of a run, by --steps, `steps=` or the recipe | n | 32 + 2 n / 1,000, at most 80 |
| batches, lengths, horizons, evaluations | the recipe's | those of `SETTINGS` |
| report of a run | written | left out |
| threads and processes | one per core | 1 |
| servers of `view` and `play` | until Ctrl-C | not started |
"""

from dataclasses import replace
from typing import Any

import pytest

from tokenworlds.api import run as api_run
from tokenworlds.commands import choices, play, view
from tokenworlds.commands.train import Train
from tokenworlds.core.errors import UserError
from tokenworlds.evaluation import processes
from tokenworlds.recipes.catalogue import Found, load
from tokenworlds.recipes.learners import assign
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training import extension, session
from tokenworlds.training.schedules.epochs import Epochs
from tokenworlds.training.schedules.interleaved import Interleaved
from tokenworlds.training.schedules.iterations import Iterations

SETTINGS = (
    "num_envs=2",
    "behaviour.horizon=2",
    "schedule.warm_up=16",
    "evaluation.episodes=1",
    "evaluation.final_episodes=2",
    "housekeeping.log_every=8",
)
"""Those that a recipe has are applied."""


def fewer_steps(steps: int) -> int:
    return 32 + 2 * min(steps // 1000, 24)


def smaller(recipe: Recipe) -> Recipe:
    learning = {
        name: replace(each, batch=min(each.batch, 2), length=min(each.length, 4))
        for name, each in recipe.learning.items()
    }
    every = min(recipe.evaluation.every, 16)
    recipe = replace(
        recipe,
        schedule=shorter(recipe.schedule),
        steps=fewer_steps(recipe.steps),
        learning=learning,
        evaluation=replace(recipe.evaluation, every=every),
    )
    for setting in SETTINGS:
        recipe = with_setting(recipe, setting)
    return recipe


def shorter(schedule: Any) -> Any:
    """A schedule with few updates, in short rounds."""
    if isinstance(schedule, Interleaved.Config):
        return replace(schedule, updates=dict.fromkeys(schedule.updates, 0.25))
    if isinstance(schedule, Epochs.Config):
        updates, first = (dict.fromkeys(of, 1) for of in (schedule.updates, schedule.first_updates))
        return replace(schedule, steps=32, first_steps=0, updates=updates, first_updates=first)
    if isinstance(schedule, Iterations.Config):
        once = replace(schedule, warm_up_updates=1, epochs=(1,), batches=(1,))
        return replace(once, steps=32, first_steps=32)
    return schedule


def with_setting(recipe: Recipe, setting: str) -> Recipe:
    try:
        return assign(recipe, [setting])
    except UserError:
        return recipe


def shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every command and function make short runs."""
    choose, extend = choices.choose_origin, extension.extend_run

    def small_recipe(*chosen: Any) -> Found:
        found = load(*chosen)
        return replace(found, recipe=smaller(found.recipe))

    def short_run(options: Train) -> Any:
        steps = options.steps and fewer_steps(options.steps)
        return choose(replace(options, steps=steps, threads=1))

    def short_extension(folder: Any, spec: Any, steps: int, command: str = "") -> Any:
        return extend(folder, spec, fewer_steps(steps), command)

    monkeypatch.setattr(choices, "load", small_recipe)
    monkeypatch.setattr(choices, "choose_origin", short_run)
    for module in (extension, api_run):
        monkeypatch.setattr(module, "extend_run", short_extension)
    monkeypatch.setattr(session, "add_report", lambda *run: run[-1])
    monkeypatch.setattr(processes, "cores", lambda: 1)
    for command in (view, play):
        monkeypatch.setattr(command, "show", lambda *server, **options: 0)
