"""SIGKILL at every operation of a run and at random moments; each run must end like its twin.

A trial is `step-vq-m@catch 37 12t 0.4`: the run is killed before its operation 37, resumed and
killed within operation 12, resumed and killed after 0.4 of the time of an uninterrupted run, then
resumed to its end.
"""

import itertools
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from interposition import Before, Interposition, KillAt, Operation
from runs_under_test import BY_NAME, CASES, RUN, Case, command, continuation
from trials import Ended, Outcome, forked, snapshot

SLOWER = 5
"""Other cases have this many times the trials of slow ones."""
COMPARED = ("checkpoints/", "replay/", "metrics.jsonl", "evaluation.json", "run.json")


@dataclass(frozen=True, slots=True)
class Twin:
    """An uninterrupted run: its files, the kinds of its operations, its duration, its output."""

    files: dict[str, bytes]
    operations: list[str]
    seconds: float
    said: str


class Kills:
    """Trials of all cases: every operation of the first, a sample of those of the others."""

    name = "kills"
    enough = 200

    def __init__(self, workspace: Path, seed: int = 0) -> None:
        self.workspace = workspace
        self.random = random.Random(seed)
        self.cases: tuple[Case, ...] = CASES
        self._twins: dict[str, Twin] = {}

    def trials(self) -> Iterator[str]:
        """Trials of all cases in turn; the first case ends when all its operations had a kill."""
        yield from (case.name for case in self.cases if not case.installed)
        installed = [case for case in self.cases if case.installed]
        generators = {case: self._trials_of(case) for case in installed}
        if len(installed) < 2:
            yield from itertools.chain.from_iterable(generators.values())
            return
        for turn in itertools.count():
            for case in installed[1:]:
                if case.slow and turn % SLOWER:
                    continue
                # The first case has as many turns as all others together.
                for trial in (next(generators[installed[0]], None), next(generators[case], None)):
                    if trial is None:
                        return
                    yield trial

    def _trials_of(self, case: Case) -> Iterator[str]:
        kinds = self.twin(case).operations
        points = [f"{number}" for number in range(1, len(kinds) + 1)]
        points += [f"{n}t" for n, kind in enumerate(kinds, 1) if kind == "write"]
        self.random.shuffle(points)
        for index, point in enumerate(points):
            more = [f"{self.random.uniform(0.05, 0.9):.3f}"] if index % 8 == 0 else []
            more += [self.random.choice(points)] if index % 5 == 0 else []
            yield " ".join([case.name, *self.random.sample([point, *more], 1 + len(more))])

    def run(self, trial: str) -> Outcome:
        name, *kills = trial.split()
        case = BY_NAME[name]
        if not case.installed:
            return Outcome(f"{name} ({case.package} is not installed)", "skipped")
        with tempfile.TemporaryDirectory(dir=self.workspace) as folder:
            landed = sum(self._kill(Path(folder), case, kill) for kill in kills)
            end = forked(command(Path(folder), continuation(Path(folder), case), case.game))
            problem = self._problem(Path(folder) / RUN, case, end)
        row = f"{name}, SIGKILLs"
        return Outcome(row, "failure" if problem else "same", problem, max(landed, bool(problem)))

    def _kill(self, folder: Path, case: Case, kill: str) -> bool:
        """Start or continue the run and kill it; returns whether it was killed."""
        words = continuation(folder, case)
        if "." in kill:
            moment = self.twin(case).seconds * float(kill)
            return forked(command(folder, words, case.game), moment).killed
        before = KillAt(int(kill.rstrip("t")), kill.endswith("t"))
        return forked(watched(folder, words, case.game, before)).killed

    def _problem(self, run: Path, case: Case, end: Ended) -> str:
        if end.code:
            return end.summary
        twin = self.twin(case)
        return difference(twin.files, snapshot(run)) or unexpected_note(end, twin)

    def twin(self, case: Case) -> Twin:
        if case.name not in self._twins:
            self._twins[case.name] = make_twin(self.workspace, case)
        return self._twins[case.name]


def watched(folder: Path, words: list[str], game: int, before: Before) -> Callable[[], int]:
    """A command whose operations in the folder are seen by `before`."""
    work = command(folder, words, game)

    def start() -> int:
        Interposition(folder, before)
        return work()

    return start


def make_twin(workspace: Path, case: Case) -> Twin:
    """Run a case without interruption."""
    folder = workspace / f"twin-{case.name.replace(':', '-')}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    kinds: list[str] = []

    def record(operation: Operation) -> None:
        kinds.append(operation.kind)

    work = watched(folder, case.command, case.game, record)

    def start() -> int:
        code = work()
        (folder / "operations.json").write_text(json.dumps(kinds))
        return code

    end = forked(start)
    if end.code:
        raise RuntimeError(f"{case.name} does not run: {end.summary}")
    operations = json.loads((folder / "operations.json").read_text())
    return Twin(snapshot(folder / RUN), operations, end.seconds, end.out + end.err)


def difference(expected: dict[str, bytes], found: dict[str, bytes]) -> str:
    """The first file that makes a run other than its twin; what nothing reads back is left out."""
    expected, found = compared(expected), compared(found)
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            return f"{name} is missing"
        if name not in expected:
            return f"{name} should not be there"
        if name in expected and found[name] != expected[name]:
            return f"{name} differs"
    return ""


def compared(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if name.startswith(COMPARED)}


def unexpected_note(end: Ended, twin: Twin) -> str:
    """Nothing that was saved is lost, so nothing needs to be announced."""
    notes = [line for line in (end.out + end.err).splitlines() if "note: " in line]
    return next((note for note in notes if note not in twin.said), "")
