"""Train an agent from Python."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from tokenworlds.api.run import Run
from tokenworlds.api.sessions import Callbacks, listed, run_session
from tokenworlds.commands import choices
from tokenworlds.commands.train import Train
from tokenworlds.core.errors import unknown
from tokenworlds.core.group import joined
from tokenworlds.envs.own import named_env
from tokenworlds.runs.folder import RunFolder, free_folder
from tokenworlds.runs.own_code import Trust
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training import session
from tokenworlds.training.callbacks import Callback
from tokenworlds.training.trackers.choice import open_trackers

HIDDEN = {"assignments", "env_set"}
"""Options of the command that are called `overrides` and `env_options` here."""
FOLDERS = ("init", "fork")


def train(
    recipe: str = "step-vq-m",
    env: object = "catch",
    steps: int | None = None,
    *,
    size: str = "nano",
    seed: int = 0,
    run: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    env_options: Mapping[str, Any] | None = None,
    on_event: Callbacks | None = None,
    progress: bool = True,
    **options: Any,
) -> Run:
    """Train an agent, evaluate it and write its report, as `tokenworlds train` does.

    `env` is a name, a Gymnasium environment, or a function that makes one; `env_options` are those
    of `--env-set`: {"frame_skip": 4}. `steps` defaults to the recipe's, `run` (the folder) to
    runs/RECIPE-ENV-sSEED. `overrides` changes settings of the recipe by their paths, as `--set`
    does: {"world.memory": 8}. `on_event` is called with each event: `event.kind`, `event.values`
    (docs/runs.md). With `progress`, a terminal shows a live display, and a notebook or file one
    line for each log event. `options` are the others of `tokenworlds train`: threads, protocol,
    device, precision, compile, stop_at_return, patience, `init` (a run or saved agent to take
    weights from), `fork` (a run to continue in a new folder), `fresh` (a learner of the fork that
    starts anew), csv, wandb and mlflow.

    Ctrl-C saves the run and raises `KeyboardInterrupt`; `Run.open(folder).resume()` continues it.
    """
    check_options(options)
    options |= {"size": size, "steps": steps, "seed": seed}
    options |= {name: os.fspath(options[name]) for name in FOLDERS if name in options}
    settings, playing = (assignments(each or {}) for each in (overrides, env_options))
    chosen = Train(
        recipe=recipe, env=named_env(env), assignments=settings, env_set=playing, **options
    )
    return start(chosen, run, listed(on_event), progress)


def start(
    options: Train, run: str | Path | None, on_event: Sequence[Callback], progress: bool
) -> Run:
    """Do what `Train.execute` does, and return the run."""
    with joined() as group:
        origin, spec = choices.choose_origin(options)
        found = group.lead(lambda: free_folder(choices.default_folder(spec)))
        told = (*on_event, *open_trackers(options.trackers)) if group.leads else ()
        work = partial(session.start, command=options.command(), on_event=told, origin=origin)
        folder = RunFolder(Path(run) if run is not None else found)
        run_session(work, spec, folder, progress)
        return Run(folder, trust_of(spec))


def check_options(options: Mapping[str, Any]) -> None:
    """Raise `UserError` for a name that is no option of `tokenworlds train`."""
    passed = {field.name for field in fields(Train)} - HIDDEN
    for name in options:
        if name not in passed:
            raise unknown("option of train", name, passed | {"overrides", "env_options"})


def assignments(overrides: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Settings by path as `path=value`, each value as JSON or a plain word."""
    texts = {
        path: value if isinstance(value, str) else json.dumps(value)
        for path, value in overrides.items()
    }
    return tuple((f"{path}={text}",) for path, text in texts.items())


def trust_of(spec: RunSpec) -> Trust:
    """The user named all of this in this process."""
    return Trust({name: sys.modules[name] for name in spec.own_files}, spec.env.name)
