"""Runs that begin with what another run learned: from its weights, or as a fork of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from tokenworlds.agent import CONFIG, WEIGHTS, Agent
from tokenworlds.core import files
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.files import DamagedFile
from tokenworlds.runs import events
from tokenworlds.runs.checkpoint import (
    Checkpoint,
    explaining_misfits,
    physical_memory,
    read_tensors,
)
from tokenworlds.runs.extension import schedule_of
from tokenworlds.runs.folder import LONGEST_RUN, RunFolder
from tokenworlds.runs.spec import Extension, RunSpec
from tokenworlds.training.trainer import LAST_WEIGHTS, OPTIMISER, Trainer, progress_of

FIXED = ("num_envs", "resolution", "grey")
"""Settings that replay depends on."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights with which a new run begins, and where they come from."""

    place: Path
    tensors: Mapping[str, Tensor]
    record: Mapping[str, Any]

    def give_to(self, agent: Agent) -> None:
        """Raise `UserError` if the agent has other weights."""
        check_fit(self.place, self.tensors, agent)
        agent.load_state_dict(dict(self.tensors))


@dataclass(frozen=True, slots=True)
class Fork:
    """A checkpoint of another run, which a new run continues with changes.

    The learner `fresh` starts anew ("": none does).
    """

    parent: RunFolder
    checkpoint: Checkpoint
    record: Mapping[str, Any]
    fresh: str = ""

    def checkpoint_for(self, trainer: Trainer) -> Checkpoint:
        """The checkpoint that an untrained trainer continues; `UserError` if it does not fit."""
        found = self.checkpoint
        if self.fresh:
            found = replace(found, tensors=renew(found.tensors, trainer, self.fresh))
        check_fit(self.parent.path, found.tensors["weights"], trainer.agent)
        return found

    def copy_files(self, folder: RunFolder) -> None:
        """Copy replay and metrics as the checkpoint knows them; `UserError` if replay is damaged.

        Later steps of the parent are left out. The copies are verified when they are restored.
        """
        state, source = self.checkpoint.state, self.parent.path
        with explaining_misfits(self.checkpoint):
            parts = {
                f"replay/{name}": extent[0] for name, extent in state["replay"]["files"].items()
            }
            metrics = state["metrics"]["size"]
        for name, size in parts.items():
            (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
            files.write_file(folder.path, name, files.read_bytes(source, name, size, size))
        if metrics:
            content = files.read_bytes(source, events.FILE, metrics, metrics)
            files.write_file(folder.path, events.FILE, content)


Origin = Weights | Fork


def read_weights(path: Path) -> Weights:
    """The weights of a run's newest checkpoint, or of an agent that was saved. Runs no code."""
    if (path / CONFIG).is_file():
        document = files.read_signed_json(path, CONFIG, LONGEST_RUN)
        content = files.read_bytes(path, WEIGHTS, physical_memory())
        if files.sha256(content) != document.get("weights"):
            raise DamagedFile(path / WEIGHTS, "it is not as it was written")
        record = {"folder": str(path), "weights": files.sha256(content)}
        return Weights(path, read_tensors(content, path / WEIGHTS), {"init": record})
    found = RunFolder.open(path).newest().checkpoint
    return Weights(path, found.tensors["weights"], {"init": record_of(path, found)})


def open_fork(
    parent: RunFolder, spec: RunSpec, changed: RunSpec, fresh: str = ""
) -> tuple[Fork, RunSpec]:
    """A fork of a run at its newest checkpoint, and the specification that continues it.

    `changed` is the specification with the user's changes. The learner `fresh` starts anew.
    """
    if fresh and fresh not in changed.recipe.learning:
        raise unknown("learner", fresh, changed.recipe.learning)
    for name in FIXED:
        before, after = getattr(spec.recipe, name), getattr(changed.recipe, name)
        if before != after:
            raise UserError(
                f"a fork of {parent.path} keeps {name}={before}, on which its replay depends, "
                f"not {after}: start anew with --init {parent.path}"
            )
    found = parent.newest().checkpoint
    with explaining_misfits(found):
        progress = progress_of(found)
    if changed.recipe.steps <= progress.steps:
        raise UserError(
            f"{parent.path} has {progress.steps:,} steps already: give its fork more with --steps"
        )
    step = schedule_of(spec).step(progress)
    extension = Extension(step=step, steps=progress.steps, updates=dict(progress.updates))
    fork = Fork(parent, found, {"parent": record_of(parent.path, found)}, fresh)
    return fork, replace(changed, extended=extension)


def renew(
    tensors: Mapping[str, Mapping[str, Tensor]], trainer: Trainer, name: str
) -> dict[str, Mapping[str, Tensor]]:
    """The tensors of a checkpoint with a learner's weights and optimiser as the trainer has them.

    Its old weights may have other shapes.
    """
    learner, agent = trainer.learners[name], trainer.agent
    path = next(path for path, module in agent.named_modules() if module is learner.module)
    own = f"{path}." if path else ""
    kept = {key: each for key, each in tensors["weights"].items() if not key.startswith(own)}
    begun = {key: each for key, each in agent.state_dict().items() if key.startswith(own)}
    renewed = {**tensors, "weights": {**kept, **begun}}
    renewed[f"{OPTIMISER}{name}"] = learner.optimiser.state()
    if learner.learning.average:
        renewed[f"{LAST_WEIGHTS}{name}"] = learner.average.state()
    return renewed


def record_of(path: Path, found: Checkpoint) -> dict[str, Any]:
    """Where a run comes from, as its run.json says."""
    steps = found.state.get("steps")
    return {"folder": str(path), "agent_steps": steps, "checkpoint": found.manifest}


def check_fit(place: Path, weights: Mapping[str, Tensor], agent: Agent) -> None:
    """Raise `UserError` that names the first weight of another shape."""
    wanted = {name: tuple(each.shape) for name, each in agent.state_dict().items()}
    found = {name: tuple(each.shape) for name, each in weights.items()}
    for name in (*wanted, *found):
        if wanted.get(name) != found.get(name):
            raise UserError(
                f"the weights of {place} do not fit: {name} has {shape_text(found.get(name))} "
                f"there and {shape_text(wanted.get(name))} here"
            )


def shape_text(shape: tuple[int, ...] | None) -> str:
    if shape is None:
        return "no values"
    return f"the shape {' x '.join(map(str, shape)) or '()'}"
