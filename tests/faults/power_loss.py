"""Power losses: of a run's operations up to any point, only what was synced survives for sure.

A trial is `train 137 synced` or `resume 40 some:5`: the first 137 operations of a run from its
start, of which only those survive that were synced; or the first 40 of a run that was resumed, of
which some others survive, chosen by the number 5.
"""

import json
import random
import re
import shutil
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from disk_model import Disk, never
from interposition import KillAt, Operation
from kills import Twin, difference, make_twin, unexpected_note, watched
from runs_under_test import CASES, RUN, command, continuation
from trials import Outcome, forked, snapshot

from tokenworlds.runs.checkpoint import Checkpoint
from tokenworlds.runs.folder import RunFolder

CASE = CASES[0]
STOPPED_AFTER = 0.6
"""The share of its operations after which the resumed run had been killed."""
VARIANTS = ("synced", "some:1", "some:2")


class PowerLosses:
    """Trials of every prefix of the operations, in random order."""

    name = "power"
    enough = 200

    def __init__(self, workspace: Path, seed: int = 0) -> None:
        self.workspace = workspace
        self.random = random.Random(seed)
        self.twin: Twin = make_twin(workspace, CASE)
        self.stopped = workspace / "stopped"
        shutil.rmtree(self.stopped, ignore_errors=True)
        self.stopped.mkdir()
        kill = KillAt(int(STOPPED_AFTER * len(self.twin.operations)), torn=False)
        forked(watched(self.stopped, CASE.command, CASE.game, kill))
        self.logs = {"train": self._record(CASE.command), "resume": self._record(["resume", RUN])}

    def _record(self, words: list[str]) -> list[Operation]:
        """The operations of a session, with a mark after each checkpoint."""
        log: list[Operation] = []
        with tempfile.TemporaryDirectory(dir=self.workspace) as name:
            folder = Path(name)
            if words[0] == "resume":
                shutil.copytree(self.stopped / RUN, folder / RUN)
            work, written = watched(folder, words, CASE.game, log.append), folder / "log.json"

            def start() -> int:
                mark_checkpoints(log)
                code = work()
                written.write_text(json.dumps([to_json(each) for each in log]))
                return code

            end = forked(start)
            if end.code:
                raise RuntimeError(end.summary)
            return [from_json(each) for each in json.loads(written.read_text())]

    def trials(self) -> Iterator[str]:
        found = [
            f"{session} {number} {variant}"
            for session, log in self.logs.items()
            for number in range(1, len(log) + 1)
            for variant in VARIANTS
        ]
        self.random.shuffle(found)
        yield from found

    def run(self, trial: str) -> Outcome:
        session, number, variant = trial.split()
        done = self.logs[session][: int(number)]
        disk = Disk()
        if session == "resume":
            disk.load(self.stopped)
        disk.apply(done)
        with tempfile.TemporaryDirectory(dir=self.workspace) as name:
            folder = Path(name)
            disk.survivors(folder, keeping(variant))
            problem = lost(folder / RUN, done)
            end = forked(command(folder, continuation(folder, CASE), CASE.game))
            if end.code:
                problem = problem or end.summary
            files = snapshot(folder / RUN)
            problem = (
                problem or unexpected_note(end, self.twin) or difference(self.twin.files, files)
            )
        row = f"{session}, {'only synced changes' if variant == 'synced' else 'some other changes'}"
        return Outcome(row, "failure" if problem else "same", problem)


def mark_checkpoints(log: list[Operation]) -> None:
    """Record when a run has declared itself and when it has saved a checkpoint."""
    commit: Callable[[RunFolder], None] = RunFolder.commit
    save: Callable[[RunFolder, int, Checkpoint, int], Path] = RunFolder.save

    def commit_and_mark(folder: RunFolder) -> None:
        commit(folder)
        log.append(Operation("mark", "begun"))

    def save_and_mark(folder: RunFolder, step: int, checkpoint: Checkpoint, keep: int) -> Path:
        path = save(folder, step, checkpoint, keep)
        log.append(Operation("mark", f"saved {step}"))
        return path

    RunFolder.commit = commit_and_mark  # type: ignore[method-assign,assignment]
    RunFolder.save = save_and_mark  # type: ignore[method-assign,assignment]


def keeping(variant: str) -> Callable[[], bool]:
    if variant == "synced":
        return never
    chance = random.Random(variant)
    share = chance.random()
    return lambda: chance.random() < share


def lost(run: Path, done: list[Operation]) -> str:
    """What was saved and is no longer there."""
    marks = [each.path for each in done if each.kind == "mark"]
    if "begun" in marks and not (run / "run.json").exists():
        return "run.json was lost after the run had begun"
    saved = [int(mark.split()[1]) for mark in marks if mark.startswith("saved")]
    found = [
        int(path.name.removeprefix("step-"))
        for path in (run / "checkpoints").glob("step-*")
        if re.fullmatch(r"step-\d+", path.name)
    ]
    if saved and ("begun" in marks or found) and saved[-1] not in found:
        return f"checkpoint {saved[-1]} was lost after it had been saved; there are {found}"
    return ""


def to_json(operation: Operation) -> dict[str, object]:
    return {**asdict(operation), "content": b64encode(operation.content).decode()}


def from_json(described: dict[str, object]) -> Operation:
    return Operation(**{**described, "content": b64decode(str(described["content"]))})  # type: ignore[arg-type]
