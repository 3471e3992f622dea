"""The folder of a run: its description, its checkpoints, and only one process at a time."""

import fcntl
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from tokenworlds.core.description import from_json, to_json
from tokenworlds.core.errors import UserError
from tokenworlds.replay.store import DamagedReplay
from tokenworlds.training import checkpoint as checkpoints
from tokenworlds.training.checkpoint import Checkpoint, DamagedCheckpoint
from tokenworlds.training.machine import describe_machine
from tokenworlds.training.spec import RunSpec

Verify = Callable[[Checkpoint], None]
Modules = Callable[[str], Mapping[str, ModuleType]]


class RunFolder:
    """Where a run keeps what it is and how far it has come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None

    @staticmethod
    def create(path: Path, spec: RunSpec) -> "RunFolder":
        """A folder for a new run; one that holds a run already is refused."""
        if (path / "run.json").exists():
            raise UserError(
                f"{path} holds a run already: go on with 'tokenworlds resume {path}', "
                "or choose another folder with --run"
            )
        path.mkdir(parents=True, exist_ok=True)
        folder = RunFolder(path)
        folder.lock()
        described = {"run": to_json(spec), "machine": describe_machine()}
        (path / "run.json").write_text(json.dumps(described, indent=2) + "\n")
        return folder

    @staticmethod
    def open(path: Path) -> "RunFolder":
        """The folder of a run that exists."""
        if not path.is_dir():
            raise UserError(f"{str(path)!r} is no run folder: there is no such folder")
        if not (path / "run.json").is_file():
            raise UserError(f"{str(path)!r} is no run folder: it holds no run.json")
        return RunFolder(path)

    def spec(self, modules: Modules) -> RunSpec:
        """The description of the run; `modules` finds a user's own code by the recipe's name."""
        try:
            described = json.loads((self.path / "run.json").read_text())["run"]
            name = described["recipe_name"]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{self.path / 'run.json'} cannot be read: {error!r}") from error
        spec = from_json(described, modules(name))
        assert isinstance(spec, RunSpec), type(spec)
        return spec

    def lock(self) -> None:
        """Keep other processes out until this one ends."""
        self._lock = open(self.path / ".lock", "w")  # noqa: SIM115 (held as long as the run)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{self.path} is in use by another process") from None

    def unlock(self) -> None:
        """Let other processes in."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def save(self, step: int, checkpoint: Checkpoint, keep: int) -> None:
        """Write a checkpoint and let go of old ones."""
        checkpoints.write(self.path / "checkpoints", step, checkpoint)
        checkpoints.prune(self.path / "checkpoints", keep)

    def newest(self, verify: Verify | None = None) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that verifies, and a word on each that does not."""
        told: list[str] = []
        for path in checkpoints.newest_first(self.path / "checkpoints"):
            try:
                checkpoint = checkpoints.read(path)
                if verify is not None:
                    verify(checkpoint)
                return checkpoint, told
            except (DamagedCheckpoint, DamagedReplay) as error:
                told.append(f"checkpoint {path.name} is damaged and skipped ({error})")
                # Set aside, or it would be counted among the latest that are kept.
                path.rename(path.with_name(f"damaged-{path.name}"))
        return None, told

    def write_json(self, name: str, content: Any) -> Path:
        """A file of results, replaced in one go."""
        partial = self.path / f".partial-{name}"
        partial.write_text(json.dumps(content, indent=2) + "\n")
        return partial.replace(self.path / name)


def free_folder(wanted: Path) -> Path:
    """The folder itself if no run is there yet, else the first free one with a number behind."""
    path, number = wanted, 1
    while (path / "run.json").exists():
        number += 1
        path = wanted.with_name(f"{wanted.name}-{number}")
    return path
