"""Damage one file of a run, read the run, and look at what the reader says and leaves behind.

A trial is `finished evaluate newest/state.json flip:123`: the state of the run, the reader, the
file, and the damage. `newest` and `older` are checkpoints.
"""

import hashlib
import os
import random
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import damages
from interposition import KillAt
from kills import compared, make_twin, watched
from runs_under_test import BY_NAME, RUN, command
from trials import Ended, Kind, Outcome, forked, snapshot

from tokenworlds.agent import Agent
from tokenworlds.cli import USER_ERROR, print_error
from tokenworlds.core.errors import UserError

CASE = BY_NAME["step-vq-m@catch"]
READERS = {
    "finished": ("resume", "evaluate", "dream", "load", "load_best"),
    "stopped": ("resume", "load"),
    "saved": ("load",),
}
COMMANDS = {
    "resume": ["resume", RUN],
    "evaluate": ["evaluate", RUN, "--json"],
    "dream": ["dream", RUN, "--horizon", "3", "--count", "1"],
}
WRITTEN = {"evaluate": ("evaluation.json",), "dream": ("dream.webp",)}
"""What a reader may write."""
CHECKPOINTS = {"newest": -1, "older": 0}
FOLDERS = ("checkpoints", "newest", "older", "replay", "replay/env-000")
STOPPED_AFTER = 0.7
"""The share of its operations after which the stopped run was killed."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader printed and what it produced from a folder."""

    end: Ended
    product: dict[str, bytes]


class DamagedRuns:
    """Trials of every file of a run, every damage and every reader, in random order."""

    name = "damages"
    enough = 1000

    def __init__(self, workspace: Path, seed: int = 0) -> None:
        self.workspace = workspace
        self.random = random.Random(seed)
        self.originals = workspace / "originals"
        self._expected: dict[tuple[str, str], Reading] = {}
        if not self.originals.exists():
            self._prepare()

    def _prepare(self) -> None:
        """A finished run, one that was killed, and an agent that was saved."""
        for state in READERS:
            (self.originals / state).mkdir(parents=True)
        finished, stopped = self.originals / "finished", self.originals / "stopped"
        operations = len(make_twin(self.workspace, CASE).operations)
        self._succeed(command(finished, CASE.command, CASE.game))
        another = ["evaluate", RUN, "--episodes", "1"]
        self._succeed(command(finished, another, CASE.game))
        kill = KillAt(int(operations * STOPPED_AFTER), torn=False)
        forked(watched(stopped, CASE.command, CASE.game, kill))

        def save() -> int:
            Agent.load(finished / RUN).save(self.originals / "saved" / RUN)
            return 0

        self._succeed(save)

    def _succeed(self, work: Callable[[], int]) -> None:
        end = forked(work)
        if end.code:
            raise RuntimeError(end.summary)

    def trials(self) -> Iterator[str]:
        found = [
            f"{state} {reader} {file} {damage}"
            for state, readers in READERS.items()
            for file, names in self._files(state)
            for damage in names
            for reader in readers
        ]
        self.random.shuffle(found)
        yield from found

    def _files(self, state: str) -> Iterator[tuple[str, list[str]]]:
        """Names of files and folders, each with its damages."""
        run = self.originals / state / RUN
        if state != "saved":
            yield from ((name, list(damages.OF_FOLDERS)) for name in FOLDERS)
        names = {alias: checkpoint(run, alias).name for alias in CHECKPOINTS if state != "saved"}
        for file in snapshot(run):
            for alias, name in names.items():
                file = file.replace(f"checkpoints/{name}/", f"{alias}/")
            if not file.startswith("tensorboard"):
                yield file, list(damages.names(self.random))

    def run(self, trial: str) -> Outcome:
        state, reader, file, damage = trial.split()
        expected = self._read_intact(state, reader)
        with tempfile.TemporaryDirectory(dir=self.workspace) as folder:
            run, outside = self._copy(state, Path(folder))
            name, intact = real_name(run, file), listing(run)
            damages.apply(damage, run / name, outside)
            before = (listing(run), listing(outside))
            found = read(run, reader, lambda: damages.break_disk(damage, run, name))
            after = (listing(run), listing(outside))
        row = f"{reader} of a {state} {'agent' if state == 'saved' else 'run'}"
        problem = disturbed(before, after, reader, found.end)
        if problem:
            return Outcome(row, "failure", problem)
        damaged = {each for each in intact if before[0].get(each) != intact[each]}
        kind, detail = judge(found, without(expected, damaged), damage, name)
        return Outcome(row, kind, detail if kind == "failure" else "")

    def _copy(self, state: str, folder: Path) -> tuple[Path, Path]:
        outside = folder / "outside"
        outside.mkdir()
        (outside / "precious").write_text("keep me\n")
        shutil.copytree(self.originals / state / RUN, folder / RUN)
        return folder / RUN, outside

    def _read_intact(self, state: str, reader: str) -> Reading:
        if (state, reader) not in self._expected:
            with tempfile.TemporaryDirectory(dir=self.workspace) as folder:
                run, _ = self._copy(state, Path(folder))
                found = read(run, reader, lambda: None)
            if found.end.code or found.end.noted:
                raise RuntimeError(f"an intact {state} run: {found.end.summary}")
            self._expected[state, reader] = found
        return self._expected[state, reader]


def checkpoint(run: Path, alias: str) -> Path:
    return sorted((run / "checkpoints").glob("step-*"))[CHECKPOINTS[alias]]


def real_name(run: Path, file: str) -> str:
    alias, slash, rest = file.partition("/")
    if alias not in CHECKPOINTS:
        return file
    return f"checkpoints/{checkpoint(run, alias).name}{slash}{rest}"


def read(run: Path, reader: str, prepare: Callable[[], None]) -> Reading:
    """Run a reader on a run in a process of its own."""
    loads = {"load": "last", "load_best": "best"}
    if reader in loads:
        work = load(run, loads[reader])
    else:
        work = command(run.parent, COMMANDS[reader], CASE.game)

    def start() -> int:
        prepare()
        return work()

    end = forked(start, patience=60.0)
    if end.code:
        return Reading(end, {})
    if reader == "resume":
        score = end.out[end.out.find("score ") :].encode()
        return Reading(end, {"score": score, **compared(snapshot(run))})
    product = end.out.encode()
    return Reading(end, {"printed": product, **snapshot_of(run, WRITTEN.get(reader, ()))})


def snapshot_of(run: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in names if (run / name).is_file()}


def load(run: Path, checkpoint: str = "last") -> Callable[[], int]:
    """Load the agent as a script would, and print a hash of all its weights."""

    def work() -> int:
        warnings.simplefilter("always")
        os.chdir(run.parent)
        try:
            agent = Agent.load(run.name, checkpoint=checkpoint)
        except UserError as error:
            return print_error(error, USER_ERROR)
        found = hashlib.sha256(repr(agent.recipe).encode())
        for name, weights in sorted(agent.state_dict().items()):
            found.update(name.encode() + weights.numpy().tobytes())
        print(found.hexdigest())
        return 0

    return work


def without(reading: Reading, names: set[str]) -> Reading:
    """Files that nobody read or replaced may stay damaged."""
    kept = {file: content for file, content in reading.product.items() if file not in names}
    return Reading(reading.end, kept)


def judge(found: Reading, expected: Reading, damage: str, name: str) -> tuple[Kind, str]:
    if found.end.one_sentence:
        return "sentence", ""
    if found.end.code:
        return "failure", found.end.summary
    if damage in damages.REFUSED:
        return "failure", f"{name} was accepted: {found.end.summary}"
    if found.end.noted:
        return "announced", ""
    for file, content in expected.product.items():
        if found.product.get(file) != content:
            return "failure", f"nothing was said, but {file} differs"
    return "same", ""


Entry = tuple[int, bytes]
Listing = dict[str, Entry]


def listing(folder: Path) -> Listing:
    """Type and content of everything below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        regular = path.is_file() and not path.is_symlink()
        found[path.relative_to(folder).as_posix()] = (mode, path.read_bytes() if regular else b"")
    return found


def disturbed(
    before: tuple[Listing, Listing], after: tuple[Listing, Listing], reader: str, end: Ended
) -> str:
    """What a reader changed although it only reads."""
    if before[1] != after[1]:
        return "a file outside the folder was changed"
    if reader == "resume" and end.code == 0:
        return ""
    allowed = WRITTEN.get(reader, ())
    for name in before[0].keys() | after[0].keys():
        old, new = before[0].get(name), after[0].get(name)
        if name not in allowed and old != new and not (reader == "resume" and is_cut(old, new)):
            return f"{name} was changed by a reader"
    return ""


def is_cut(old: Entry | None, new: Entry | None) -> bool:
    """Whether a file lost its end: a resume returns to its checkpoint before it goes on."""
    return old is not None and new is not None and old[1].startswith(new[1])
