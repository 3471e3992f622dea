"""Train an agent from Python."""

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tokenworlds.api.run import Run
from tokenworlds.api.sessions import Callbacks, listed, run_session
from tokenworlds.commands import choices
from tokenworlds.commands.train import Train
from tokenworlds.envs.own import named_env
from tokenworlds.runs.folder import RunFolder, free_folder
from tokenworlds.runs.own_code import Trust
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training import session


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
    does: {"world.memory": 8}.
    `on_event` is called with what happens (`event.kind`, `event.values`; docs/runs.md). With
    `progress`, a terminal shows a live display, and a notebook or file one line for each log
    event. `options` are the others of `tokenworlds train`: threads, protocol, device, precision,
    compile, stop_at_return, patience, init, and fork for `--from`.

    Ctrl-C saves the run and raises `KeyboardInterrupt`; `Run.open(folder).resume()` continues it.
    """
    settings, playing = (assignments(each or {}) for each in (overrides, env_options))
    options |= {"size": size, "steps": steps, "seed": seed}
    chosen = Train(
        recipe=recipe, env=named_env(env), assignments=(settings,), env_set=(playing,), **options
    )
    origin, spec = choices.choose_origin(chosen)
    path = Path(run) if run is not None else free_folder(choices.default_folder(spec))
    told = listed(on_event)
    work = partial(session.start, command=chosen.command(), on_event=told, origin=origin)
    folder = RunFolder(path)
    run_session(work, spec, folder, progress)
    return Run(folder, trust_of(spec))


def assignments(overrides: Mapping[str, Any]) -> tuple[str, ...]:
    """Settings by path as `path=value`, each value as JSON or a plain word."""
    texts = {
        path: value if isinstance(value, str) else json.dumps(value)
        for path, value in overrides.items()
    }
    return tuple(f"{path}={text}" for path, text in texts.items())


def trust_of(spec: RunSpec) -> Trust:
    """The user named all of this in this process."""
    return Trust({name: sys.modules[name] for name in spec.own_files}, spec.env.name)
