"""The folder of a run: its description, its checkpoints, and only one process at a time."""

import fcntl
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from torch import Tensor

from tokenworlds.core.description import from_json, to_json
from tokenworlds.core.errors import UserError
from tokenworlds.replay.store import DamagedReplay
from tokenworlds.runs import checkpoint as checkpoints
from tokenworlds.runs.checkpoint import Checkpoint, DamagedCheckpoint
from tokenworlds.runs.machine import describe_machine
from tokenworlds.runs.spec import RunSpec

ASIDE = "damaged-"
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
        folder = RunFolder(path)
        folder.begin(spec)
        return folder

    def begin(self, spec: RunSpec) -> None:
        """Lock the folder, made if need be, and write down which run it is for."""
        self.insist_on_vacancy()
        self.path.mkdir(parents=True, exist_ok=True)
        self.lock()
        self.write_json("run.json", {"run": to_json(spec), "machine": describe_machine()})

    def insist_on_vacancy(self) -> None:
        """Refuse a folder that holds a run, or anything else that is not a run's."""
        if (self.path / "run.json").exists():
            raise UserError(
                f"{self.path} holds a run already: go on with 'tokenworlds resume {self.path}', "
                "or choose another folder with --run"
            )
        if self.path.is_dir() and {entry.name for entry in self.path.iterdir()} - {".lock"}:
            raise UserError(f"{self.path} is not empty: choose another folder with --run")

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
        if not isinstance(spec, RunSpec):
            raise UserError(f"{self.path / 'run.json'} describes no run")
        return spec

    @property
    def machine(self) -> dict[str, Any]:
        """What the run was begun on."""
        described = json.loads((self.path / "run.json").read_text()).get("machine", {})
        return dict(described)

    def lock(self) -> None:
        """Keep other processes out until this one ends."""
        self._lock = open(self.path / ".lock", "w")  # noqa: SIM115 (held as long as the run)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.unlock()
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
                self._set_aside(path)
        return None, told

    def newest_weights(self) -> Mapping[str, Tensor]:
        """The weights of the newest checkpoint that verifies."""
        found, _ = self.newest()
        if found is None:
            raise self.no_checkpoint()
        return found.tensors["weights"]

    def no_checkpoint(self) -> UserError:
        """The error for a run without a checkpoint that verifies."""
        why = "all are damaged" if self.has_checkpoints else "none was written yet"
        return UserError(f"{self.path} holds no checkpoint that verifies: {why}")

    def _set_aside(self, path: Path) -> None:
        """Rename a damaged checkpoint, or it would be counted among the latest that are kept.

        Only the process that holds the run may: to another one, a checkpoint that is just being
        deleted looks damaged too.
        """
        if self._lock is not None:
            aside = path.with_name(f"{ASIDE}{path.name}")
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)

    @property
    def has_checkpoints(self) -> bool:
        """Whether any was ever written, damaged ones included."""
        return any(any((self.path / "checkpoints").glob(f"{kind}step-*")) for kind in ("", ASIDE))

    @property
    def latest_step(self) -> int:
        """The step of the newest checkpoint by name, whether it verifies or not; 0 if none."""
        names = [path.name for path in checkpoints.newest_first(self.path / "checkpoints")]
        return int(names[0].rpartition("-")[2]) if names else 0

    def write_json(self, name: str, content: Any) -> Path:
        """A file of results, replaced in one go."""
        partial = self.path / f".partial-{name}"
        partial.write_text(json.dumps(content, indent=2) + "\n")
        checkpoints.sync(partial)
        return partial.replace(self.path / name)


def free_folder(wanted: Path) -> Path:
    """The folder itself if nothing is there yet, else the first free one with a number behind."""
    path, number = wanted, 1
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.name}-{number}")
    return path
