"""The folder of a run: its specification, its checkpoints, and a lock for one process.

A new run writes `.starting`, its first checkpoint, and then renames `.starting` to run.json: a
folder with a run.json has at least one checkpoint, unless somebody deleted it. The lock is on this
file, whatever its name.
"""

import contextlib
import fcntl
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tokenworlds.core import files
from tokenworlds.core.description import from_json, to_json
from tokenworlds.core.errors import UserError
from tokenworlds.core.files import DamagedFile
from tokenworlds.runs import checkpoint as checkpoints
from tokenworlds.runs.checkpoint import RUN, Checkpoint, folder_name, step_of
from tokenworlds.runs.history import changed, versions
from tokenworlds.runs.machine import describe_machine
from tokenworlds.runs.own_code import Trust
from tokenworlds.runs.spec import RunSpec

FORMAT = 3
"""The format of run.json and of everything beside it. Format 1 did not write its number."""
STARTING = ".starting"
BEGUN = {STARTING, "checkpoints", ".deleting-checkpoints", "replay", "metrics.jsonl", "tensorboard"}
"""What runs that were killed before their first checkpoint leave behind, one after another."""
LONGEST_RUN = 2**22
LAST = "last"
ATTEMPTS, PAUSE = 10, 0.02
Verify = Callable[[Checkpoint], None]


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest usable checkpoint, and a sentence for each one that was skipped."""

    checkpoint: Checkpoint
    skipped: tuple[str, ...] = ()


class RunFolder:
    """Reads and writes the folder at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self._document: bytes | None = None
        self.saved = ""
        """The hash of the manifest of the checkpoint that was written or read last."""

    @staticmethod
    def create(path: Path, spec: RunSpec) -> "RunFolder":
        folder = RunFolder(path)
        folder.begin(spec)
        return folder

    def begin(self, spec: RunSpec, facts: Mapping[str, Any] | None = None) -> None:
        """Create and lock the folder; `commit` makes it a run once it has a checkpoint.

        run.json keeps `facts`, which follow from the specification, for readers without torch.
        """
        self.check_unused()
        files.make_folder(self.path)
        self._hold(STARTING, os.O_RDWR | os.O_CREAT)
        machine = describe_machine()
        described = {"format": FORMAT, "run": to_json(spec)}
        self._document = encoded({**described, **(facts or {}), "machine": machine})
        files.write_file(self.path, STARTING, self._document)
        files.remove_tree(self.path / "checkpoints")

    def commit(self) -> None:
        """Declare a run that has begun and saved a checkpoint."""
        os.replace(self.path / STARTING, self.path / RUN)
        files.sync(self.path)

    def check_unused(self) -> None:
        """Raise `UserError` if the folder holds a run or other files."""
        if (self.path / RUN).exists():
            raise UserError(
                f"{self.path} already holds a run: continue it with 'tokenworlds resume "
                f"{self.path}', or choose another folder with --run"
            )
        found = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()
        if found and (STARTING not in found or found - BEGUN):
            raise UserError(f"{self.path} is not empty: choose another folder with --run")
        if found:
            files.check_tree(self.path)

    @staticmethod
    def open(path: Path) -> "RunFolder":
        if not path.is_dir():
            raise UserError(f"{str(path)!r} is not a run folder: there is no such folder")
        files.check_tree(path)
        if (path / STARTING).exists() and not (path / RUN).exists():
            raise UserError(f"{path} was stopped before it began: train it again in this folder")
        if not (path / RUN).is_file():
            raise UserError(f"{str(path)!r} is not a run folder: it has no run.json")
        return RunFolder(path)

    def spec(self, trust: Trust | None = None) -> RunSpec:
        """The specification; classes of the user's own come from what the user trusts."""
        described = self.document.get("run")
        if not isinstance(described, dict):
            raise UserError(f"{self.path / RUN} does not describe a run")
        hints = described.get("own_files", {})
        hints = hints if isinstance(hints, dict) else {}
        modules = (trust or Trust()).modules_for(self.path, described, hints)
        spec = from_json(described, modules)
        if not isinstance(spec, RunSpec):
            raise UserError(f"{self.path / RUN} does not describe a run")
        return spec

    @property
    def machine(self) -> dict[str, Any]:
        """The machine and versions that the run was started with."""
        found = self.document.get("machine", {})
        return dict(found) if isinstance(found, dict) else {}

    @property
    def document(self) -> dict[str, Any]:
        """The content of run.json."""
        try:
            content = files.read_bytes(self.path, RUN, LONGEST_RUN)
            document = files.parse_json(content, self.path / RUN)
        except DamagedFile as error:
            raise UserError(f"{error}{self._copy_hint()}") from None
        if not isinstance(document, dict):
            raise UserError(f"{self.path / RUN} does not hold an object{self._copy_hint()}")
        found = document.get("format", 1)
        if found != FORMAT:
            raise UserError(
                f"{self.path / RUN} has format {str(found)[:20]}, written by "
                f"{writer_of(document)}; tokenworlds {version('tokenworlds')} reads format "
                f"{FORMAT} only: train the agent again, or use the version that wrote it"
            )
        self._document = content
        return document

    def _copy_hint(self) -> str:
        """Where a checkpoint keeps a copy of run.json."""
        found = [path / RUN for path in checkpoints.newest_first(self.path / "checkpoints")]
        return f"; {found[0]} is a copy of it" if found and found[0].is_file() else ""

    def lock(self) -> None:
        """Keep other processes out until `unlock` or the end of this process."""
        self._hold(RUN, os.O_RDWR)

    def _hold(self, name: str, flags: int) -> None:
        self._lock = files.open_inside(self.path, name, flags)
        busy = UserError(f"{self.path} is in use by another process")
        # The file may have been renamed by another process meanwhile.
        if not take_lock(self._lock) or not self._holds(name):
            self.unlock()
            raise busy
        files.remove_partial_files(self.path)

    def _holds(self, name: str) -> bool:
        """Whether the locked file still has this name."""
        try:
            found = os.stat(self.path / name, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return self._lock is not None and os.path.samestat(os.fstat(self._lock), found)

    def change(self, spec: RunSpec, command: str, agent_steps: int) -> None:
        """Replace the specification of a locked run; run.json keeps the one before.

        The new file is locked before it gets its name: the folder is never free.
        """
        self._document = encoded(changed(self.document, to_json(spec), command, agent_steps))
        partial = f"{files.PARTIAL}{os.getpid()}-{RUN}"
        files.write_file(self.path, partial, self._document)
        lock = files.open_inside(self.path, partial, os.O_RDWR)
        take_lock(lock)
        os.replace(self.path / partial, self.path / RUN)
        files.sync(self.path)
        self.unlock()
        self._lock = lock

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def save(self, step: int, checkpoint: Checkpoint, keep: int) -> Path:
        """Write a checkpoint; delete all but the newest `keep` and the best that it names."""
        self.saved = self._write(step, checkpoint, checkpoints.STEP)
        self._tidy(step, keep, best_step(checkpoint))
        return self.path / "checkpoints" / folder_name(step)

    def save_best(self, step: int, checkpoint: Checkpoint) -> Path:
        """Write the agent of the best evaluation; the next `save` deletes the one before it."""
        self._write(step, checkpoint, checkpoints.BEST)
        return self.path / "checkpoints" / folder_name(step, checkpoints.BEST)

    def _write(self, step: int, checkpoint: Checkpoint, kind: str) -> str:
        if not (self._holds(RUN) or self._holds(STARTING)):
            raise UserError(
                f"{self.path / RUN} was replaced while the run was training: another process may "
                "use this folder, and nothing was saved"
            )
        complete = replace(checkpoint, run=self._document or b"")
        place = self.path / "checkpoints"
        place.mkdir(exist_ok=True)
        # The names of replay/ and metrics.jsonl, which may be new too.
        files.sync(self.path)
        return checkpoints.write(place, step, complete, kind)

    def _tidy(self, step: int, keep: int, best: int | None) -> None:
        """Delete all but the newest `keep` checkpoints up to a step, and the best one."""
        place = self.path / "checkpoints"
        checkpoints.write_latest(place, step)
        checkpoints.prune(place, step, keep)
        for path in checkpoints.superseded(place, best):
            files.remove_tree(path)
        checkpoints.tidy(place)

    def complete_save(self, keep: int, newest: Checkpoint) -> None:
        """Finish what `save` does after writing, if a kill prevented it."""
        place, best = self.path / "checkpoints", best_step(newest)
        found, leftovers = checkpoints.newest_first(place), list(place.glob(".*"))
        leftovers += [*found[keep:], *checkpoints.superseded(place, best)]
        if leftovers or not checkpoints.is_latest(found[0]):
            self.lock()
            try:
                self._tidy(step_of(found[0]), keep, best)
            finally:
                self.unlock()

    def newest(self, verify: Verify | None = None) -> Newest:
        """The newest checkpoint that verifies. This only reads."""
        skipped = checkpoints.missing(self.path / "checkpoints")
        intact = None
        for path in self._candidates():
            try:
                checkpoint = checkpoints.read(path)
                self._compare(checkpoint)
                if intact is not None and checkpoints.step_of(path) == 0:
                    break  # The run would start anew, although later weights are intact.
                intact = intact or checkpoint
                if verify is not None:
                    verify(checkpoint)
            except DamagedFile as error:
                if path.exists():  # Otherwise the run has just deleted it.
                    skipped.append(f"checkpoint {path.name} is skipped: {error}")
                continue
            self.saved = checkpoint.manifest
            return Newest(checkpoint, tuple(skipped))
        raise self._none_usable(skipped, intact)

    def chosen(self, which: str) -> Newest:
        """The checkpoint `last` or `best`, or that of a step. This only reads."""
        if which == LAST:
            return self.newest()
        place = self.path / "checkpoints"
        best = checkpoints.newest_first(place, checkpoints.BEST)
        steps = [*best, *checkpoints.newest_first(place)]
        found = {str(step_of(path)): path for path in sorted(steps, key=step_of)}
        if best:
            found = {checkpoints.BEST: best[0], **found}
        if which not in found:
            raise self._no_checkpoint(which, [LAST, *found])
        checkpoint = checkpoints.read(found[which])
        self._compare(checkpoint)
        return Newest(checkpoint)

    def _no_checkpoint(self, which: str, allowed: list[str]) -> UserError:
        if which != checkpoints.BEST:
            names = ", ".join(allowed)
            return UserError(f"{self.path} has no checkpoint {which[:40]!r}: choose from {names}")
        step = best_step(self.newest().checkpoint)
        why = "it was not evaluated while it trained" if step is None else f"step {step} is missing"
        return UserError(f"{self.path} has no best checkpoint: {why}")

    def _candidates(self) -> Iterator[Path]:
        """Checkpoints, the newest first, those included that appear meanwhile."""
        seen: set[Path] = set()
        while fresh := [
            path for path in checkpoints.newest_first(self.path / "checkpoints") if path not in seen
        ]:
            seen |= set(fresh)
            yield from fresh

    def _compare(self, checkpoint: Checkpoint) -> None:
        """Raise `UserError` if run.json is not as it was when the checkpoint was written.

        Changes that its history records are undone first.
        """
        document = self.document
        if checkpoint.run == self._document:
            return
        saved = files.parse_json(checkpoint.run, checkpoint.place / RUN)
        if any(saved == earlier for earlier in itertools.islice(versions(document), 1, None)):
            return
        where = first_difference(saved, document) or "in its layout"
        raise UserError(
            f"{self.path / RUN} was changed after the run began: it differs {where}; "
            f"{checkpoint.place / RUN} is a copy of the original"
        )

    def _none_usable(self, skipped: list[str], intact: Checkpoint | None) -> UserError:
        if intact is not None:
            return UserError(
                f"{self.path} cannot be continued with its replay: {skipped[0]}; its weights are "
                f"intact: 'tokenworlds resume {self.path} --without-replay' collects anew"
            )
        found = checkpoints.newest_first(self.path / "checkpoints")
        why = f"all are damaged ({skipped[0]})" if found else "its checkpoints are missing"
        return UserError(f"{self.path} has no usable checkpoint: {why}")

    @property
    def latest_step(self) -> int:
        """The step in the name of the newest checkpoint, damaged or not; 0 if there is none."""
        found = checkpoints.newest_first(self.path / "checkpoints")
        return step_of(found[0]) if found else 0


def best_step(checkpoint: Checkpoint) -> int | None:
    """The step of the best evaluation before a checkpoint, if there was one."""
    match checkpoint.state.get("best"):
        case {"step": int(step)}:
            return step
    return None


def take_lock(descriptor: int) -> bool:
    """Whether the file was free.

    `tokenworlds runs` holds a shared lock for the moment in which it looks, hence the attempts.
    """
    for attempt in range(ATTEMPTS):
        time.sleep(PAUSE if attempt else 0.0)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def encoded(document: Mapping[str, Any]) -> bytes:
    """The content of run.json."""
    return (json.dumps(document, indent=2) + "\n").encode()


def first_difference(before: Any, after: Any, place: str = "") -> str | None:
    """The first place where two JSON documents differ, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*before, *(name for name in after if name not in before)]
        pairs = [(name, before.get(name), after.get(name)) for name in names]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(str(i), *both) for i, both in enumerate(zip(before, after, strict=True))]
    elif before == after and type(before) is type(after):
        return None
    else:
        return f"at {place or 'the top'}: {json.dumps(after)[:60]}, not {json.dumps(before)[:60]}"
    found = (first_difference(old, new, f"{place}.{name}".lstrip(".")) for name, old, new in pairs)
    return next((text for text in found if text), None)


def writer_of(document: Mapping[str, Any]) -> str:
    """The version that wrote a run.json, as far as it says."""
    match document.get("machine"):
        case {"packages": {"tokenworlds": str(found)}, "commit": str(commit)}:
            return f"tokenworlds {found[:40]} (commit {commit[:12]})"
        case {"packages": {"tokenworlds": str(found)}}:
            return f"tokenworlds {found[:40]}"
    return "another version"


def free_folder(wanted: Path) -> Path:
    """The folder if it does not exist, else the first free one with a number appended."""
    path, number = wanted, 1
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.name}-{number}")
    return path
