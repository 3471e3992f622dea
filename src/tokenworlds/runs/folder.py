"""The folder of a run: its specification, its checkpoints, and a lock for one process."""

import fcntl
import json
import shutil
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from tokenworlds.core.description import from_json, to_json
from tokenworlds.core.errors import UserError
from tokenworlds.replay.store import DamagedReplay, sync
from tokenworlds.runs import checkpoint as checkpoints
from tokenworlds.runs.checkpoint import Checkpoint, DamagedCheckpoint
from tokenworlds.runs.machine import describe_machine
from tokenworlds.runs.spec import RunSpec

FORMAT = 2
"""The format of run.json and of everything beside it. Format 1 did not write its number."""
ASIDE = "damaged-"
Verify = Callable[[Checkpoint], None]
Modules = Callable[[Mapping[str, str]], Mapping[str, ModuleType]]


class RunFolder:
    """Reads and writes the folder at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None

    @staticmethod
    def create(path: Path, spec: RunSpec) -> "RunFolder":
        folder = RunFolder(path)
        folder.begin(spec)
        return folder

    def begin(self, spec: RunSpec) -> None:
        """Create and lock the folder, and write run.json."""
        self.check_unused()
        self.path.mkdir(parents=True, exist_ok=True)
        self.lock()
        machine = describe_machine()
        self._write({"format": FORMAT, "run": to_json(spec), "machine": machine})

    def check_unused(self) -> None:
        """Raise `UserError` if the folder holds a run or other files."""
        if (self.path / "run.json").exists():
            raise UserError(
                f"{self.path} already holds a run: continue it with 'tokenworlds resume "
                f"{self.path}', or choose another folder with --run"
            )
        if self.path.is_dir() and {entry.name for entry in self.path.iterdir()} - {".lock"}:
            raise UserError(f"{self.path} is not empty: choose another folder with --run")

    @staticmethod
    def open(path: Path) -> "RunFolder":
        if not path.is_dir():
            raise UserError(f"{str(path)!r} is not a run folder: there is no such folder")
        if not (path / "run.json").is_file():
            raise UserError(f"{str(path)!r} is not a run folder: it has no run.json")
        return RunFolder(path)

    def spec(self, modules: Modules) -> RunSpec:
        """The specification; `modules` loads the user's own modules from their files."""
        document = self._read()
        try:
            described = document["run"]
            files = dict(described.get("own_files", {}))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"{self.path / 'run.json'} cannot be read: {error!r}") from error
        spec = from_json(described, modules(files))
        if not isinstance(spec, RunSpec):
            raise UserError(f"{self.path / 'run.json'} does not describe a run")
        return spec

    @property
    def machine(self) -> dict[str, Any]:
        """The machine and versions that the run was started with."""
        return dict(self._read()["machine"])

    def _write(self, document: Mapping[str, Any]) -> None:
        partial = self.path / ".partial-run.json"
        partial.write_text(json.dumps(document, indent=2) + "\n")
        sync(partial)
        partial.replace(self.path / "run.json")

    def _read(self) -> dict[str, Any]:
        path = self.path / "run.json"
        try:
            document = dict(json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise UserError(f"{path} cannot be read: {error!r}") from error
        found = document.get("format", 1)
        if found != FORMAT:
            raise UserError(
                f"{path} has format {found}, written by {writer_of(document)}; tokenworlds "
                f"{version('tokenworlds')} reads format {FORMAT} only: train the agent again, or "
                "use the version that wrote it"
            )
        return document

    def lock(self) -> None:
        """Keep other processes out until `unlock` or the end of this process."""
        self._lock = open(self.path / ".lock", "w")  # noqa: SIM115 (held as long as the run)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.unlock()
            raise UserError(f"{self.path} is in use by another process") from None

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def save(self, step: int, checkpoint: Checkpoint, keep: int) -> None:
        """Write a checkpoint and delete all but the newest `keep`."""
        checkpoints.write(self.path / "checkpoints", step, checkpoint)
        checkpoints.prune(self.path / "checkpoints", keep)

    def newest(self, verify: Verify | None = None) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that verifies, and a warning for each damaged one."""
        warnings: list[str] = []
        for path in checkpoints.newest_first(self.path / "checkpoints"):
            try:
                checkpoint = checkpoints.read(path)
                if verify is not None:
                    verify(checkpoint)
                return checkpoint, warnings
            except (DamagedCheckpoint, DamagedReplay) as error:
                warnings.append(f"checkpoint {path.name} is damaged and skipped ({error})")
                self._set_aside(path)
        return None, warnings

    def insist_on_newest(self) -> tuple[Checkpoint, list[str]]:
        """As `newest`; raises `UserError` if no checkpoint verifies."""
        found, warnings = self.newest()
        if found is None:
            raise self.no_checkpoint()
        return found, warnings

    def no_checkpoint(self) -> UserError:
        why = "all are damaged" if self.has_checkpoints else "none was written yet"
        return UserError(f"{self.path} has no usable checkpoint: {why}")

    def _set_aside(self, path: Path) -> None:
        """Rename a damaged checkpoint, so that it does not count as one of those to keep.

        Only the process with the lock does: for others, a checkpoint that is just being deleted
        looks damaged too.
        """
        if self._lock is not None:
            aside = path.with_name(f"{ASIDE}{path.name}")
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)

    @property
    def has_checkpoints(self) -> bool:
        """Whether any checkpoint exists, damaged ones included."""
        return any(any((self.path / "checkpoints").glob(f"{kind}step-*")) for kind in ("", ASIDE))

    @property
    def latest_step(self) -> int:
        """The step in the name of the newest checkpoint, damaged or not; 0 if there is none."""
        names = [path.name for path in checkpoints.newest_first(self.path / "checkpoints")]
        return int(names[0].rpartition("-")[2]) if names else 0


def writer_of(document: Mapping[str, Any]) -> str:
    """The version that wrote a run.json, as far as it says."""
    machine = document.get("machine", {})
    found, commit = machine.get("packages", {}).get("tokenworlds"), machine.get("commit")
    if not found:
        return "another version"
    return f"tokenworlds {found}" + (f" (commit {commit[:12]})" if commit else "")


def free_folder(wanted: Path) -> Path:
    """The folder if it does not exist, else the first free one with a number appended."""
    path, number = wanted, 1
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.name}-{number}")
    return path
