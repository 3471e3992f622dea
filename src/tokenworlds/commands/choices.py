"""Turn the options of a command into the specification of a run."""

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

import torch

from tokenworlds.agent import OpenedAgent, open_agent
from tokenworlds.commands.options import RunOptions
from tokenworlds.commands.train import Train
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.precision import Precision, best_precision, insist_on_precision
from tokenworlds.envs.catalogue import EnvSpec, canonical
from tokenworlds.envs.options import with_options
from tokenworlds.recipes.catalogue import OWN, Found, is_own, load
from tokenworlds.recipes.learners import assign
from tokenworlds.runs.folder import LAST, RunFolder
from tokenworlds.runs.own_code import Trust, load_files, own_files
from tokenworlds.runs.recipe import Recipe
from tokenworlds.runs.spec import RunSpec, StopRule
from tokenworlds.training.origin import Fork, Origin, open_fork, read_weights

BOUNDS = {
    "steps": 1,
    "num_envs": 1,
    "evaluation.every": 0,
    "evaluation.episodes": 1,
    "evaluation.final_episodes": 1,
    "housekeeping.log_every": 0,
    "housekeeping.save_every": 0,
    "housekeeping.keep": 1,
}


def choose_run(options: Train) -> RunSpec:
    found = choose_recipe(
        options.recipe, options.size, options.env, options.assignments, options.steps
    )
    if found.size == OWN and options.size != Train.size:
        raise UserError(
            f"{options.recipe} has no sizes: leave out --size {options.size}, or declare sizes "
            "with @recipe (docs/extending.md)"
        )
    recipe, device = found.recipe, choose_device(options.device)
    protocol = protocol_with(options.protocol, options.env_set)
    return RunSpec(
        recipe_name=stored_name(options.recipe),
        size=found.size,
        recipe=recipe,
        env=EnvSpec(options.env, protocol, recipe.resolution, recipe.grey),
        seed=options.seed,
        threads=options.threads or torch.get_num_threads(),
        device=device,
        precision=choose_precision(options.precision, device),
        compiled=options.compile,
        own_files=own_files(recipe),
        stop=choose_stop(options, recipe),
    )


def choose_origin(options: Train) -> tuple[Origin | None, RunSpec]:
    """The specification of a new run, and what it begins with: a fork, weights, or nothing."""
    if options.fork:
        return choose_fork(options)
    if options.fresh:
        raise UserError("--fresh needs --from RUN: a new run has no learners to keep")
    spec = choose_run(options)
    return read_weights(Path(options.init)) if options.init else None, spec


def choose_fork(options: Train) -> tuple[Fork, RunSpec]:
    """A fork of a run, and its specification: that of the run with the changes of the options."""
    usual = Train()
    own = [options.recipe] if is_own(options.recipe) else []
    env = canonical(options.env) if options.env != usual.env else ""
    parent = RunFolder.open(Path(options.fork))
    trust = Trust(load_files(own), env)
    spec = parent.spec(trust)
    trust.check_env(parent.path, spec.env.name)
    given = {
        "--init": bool(options.init),
        "recipe": options.recipe not in (usual.recipe, spec.recipe_name) and not own,
        "--env": env not in ("", spec.env.name),
        **{
            f"--{name}": getattr(options, name) not in (getattr(usual, name), getattr(spec, name))
            for name in ("size", "seed", "device", "precision")
        },
        "--protocol or --env-set": bool(options.protocol or options.env_set),
    }
    for name, is_given in given.items():
        if is_given:
            raise UserError(f"--from takes no {name}: a fork keeps that of {parent.path}")
    steps = options.steps or spec.recipe.steps
    recipe = changed_recipe(replace(spec.recipe, steps=steps), options.assignments)
    changed = replace(
        spec,
        recipe=recipe,
        threads=options.threads or spec.threads,
        own_files=own_files(recipe),
        stop=choose_stop(options, recipe),
    )
    return open_fork(parent, spec, changed, options.fresh)


def protocol_with(protocol: str, env_set: Sequence[Sequence[str]]) -> str:
    """A protocol, or "" for the environment's first, with the options of --env-set."""
    return with_options(protocol, list(itertools.chain.from_iterable(env_set)))


def choose_stop(options: Train, recipe: Recipe) -> StopRule | None:
    """The rule to stop early; evaluations during training must feed it."""
    if options.stop_at_return is None and options.patience is None:
        return None
    if not recipe.evaluation.every:
        name = "stop-at-return" if options.patience is None else "patience"
        raise UserError(f"--{name} needs evaluations: give evaluation.every more than 0 steps")
    return StopRule(at_return=options.stop_at_return, patience=options.patience or 0)


def choose_recipe(
    name: str,
    size: str,
    env: str,
    assignments: Sequence[Sequence[str]],
    steps: int | None = None,
) -> Found:
    """A recipe at a size for an environment, with `assignments` applied."""
    found = load(name, size, env)
    recipe = found.recipe
    if steps is not None:
        recipe = replace(recipe, steps=steps)
    return replace(found, recipe=changed_recipe(recipe, assignments))


def changed_recipe(recipe: Recipe, assignments: Sequence[Sequence[str]]) -> Recipe:
    """A recipe with `assignments` applied, whose numbers are within their bounds."""
    recipe = assign(recipe, list(itertools.chain.from_iterable(assignments)))
    for path, value, least in bounded(recipe):
        if value < least:
            raise UserError(f"{path} takes a whole number of {least} or more, not {value}")
    return recipe


def bounded(recipe: Recipe) -> Iterator[tuple[str, int, int]]:
    """Settings with a lower bound: path, value, bound."""
    for path, least in BOUNDS.items():
        part, _, field = path.rpartition(".")
        yield path, getattr(getattr(recipe, part) if part else recipe, field), least
    for name, learning in recipe.learning.items():
        yield f"learning.{name}.batch", learning.batch, 1
        yield f"learning.{name}.length", learning.length, 1


def stored_name(name: str) -> str:
    """The name of a recipe, with a path relative to the current folder."""
    if not is_own(name):
        return name
    path, _, function = name.rpartition(":")
    return f"{os.path.relpath(path)}:{function}"


def choose_device(name: str) -> str:
    """A device of this machine; `auto` is cuda if there is one, else cpu."""
    usable = devices()
    if name == "auto":
        return "cuda" if "cuda" in usable else "cpu"
    if name not in usable:
        raise unknown("device", name, ["auto", *usable])
    return name


def choose_precision(name: str, device: str) -> Precision:
    """A precision that the device supports; `auto` is the fastest."""
    if name == "auto":
        return best_precision(device)
    for precision in get_args(Precision):
        if name == precision:
            insist_on_precision(precision, device)
            return cast(Precision, precision)
    raise unknown("precision", name, ["auto", *get_args(Precision)])


def devices() -> list[str]:
    cards = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    metal = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *(["cuda"] if cards else []), *cards, *metal]


def default_folder(spec: RunSpec) -> Path:
    """The folder of a run without --run."""
    recipe = spec.recipe_name.rpartition(":")[2].replace("_", "-")
    env = spec.env.name.removeprefix("toy:").removeprefix("python:").replace(".py:", "-")
    env = env.replace(":", "-").replace("/", "-")
    return Path("runs") / f"{recipe}-{env}-s{spec.seed}"


def open_run(options: RunOptions, with_env: bool = True) -> tuple[RunFolder, RunSpec]:
    """The folder and specification of a run that this machine can compute.

    `with_env` is off for a command that creates no environment.
    """
    folder = RunFolder.open(Path(options.run))
    modules = load_files(options.recipe)
    trust = Trust(modules, options.env and canonical(options.env), options.trust)
    spec = folder.spec(trust)
    if with_env:
        trust.check_env(folder.path, spec.env.name)
    choose_device(spec.device)
    insist_on_precision(spec.precision, spec.device)
    return folder, spec


def open_agent_of(
    options: RunOptions, checkpoint: str = LAST, with_env: bool = True
) -> OpenedAgent:
    """The agent of a run, one that `Agent.save` wrote, or a pretrained one."""
    trust = Trust(load_files(options.recipe), options.env and canonical(options.env), options.trust)
    opened = open_agent(options.run, trust, checkpoint=checkpoint)
    if with_env and opened.env is not None:
        trust.check_env(Path(options.run), opened.env.name)
    return opened
