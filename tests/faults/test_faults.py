"""A selection of the fault harness, and tests of the harness itself.

`make faults` runs all of it. A section runs in a process of its own, without the checks of types
at run time, which would take most of its time.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import damages
import pytest
from disk_model import Disk, never
from interposition import Interposition, KillAt, Operation
from trials import Ended, Outcome, Table, forked, snapshot

from tokenworlds.core import files

SCRIPT = Path(__file__).parents[2] / "scripts" / "faults"
EVERYDAY = ("kills", "power", "damages", "fuzz")


@pytest.mark.parametrize("section", EVERYDAY)
def test_a_selection_of_faults_does_no_harm(section: str) -> None:
    words = [sys.executable, str(SCRIPT), "--few", "--only", section]
    plain = {**os.environ, "OMP_NUM_THREADS": "1"}
    end = subprocess.run(words, capture_output=True, text=True, timeout=600, env=plain)
    assert end.returncode == 0, end.stdout + end.stderr


def write_twice(folder: Path) -> None:
    for content in (b"first", b"second"):
        files.replace_file(folder / "file", content)


def record(folder: Path) -> list[str]:
    """The operations of two writes, recorded in another process."""

    def work() -> int:
        Interposition(folder, lambda operation: print(operation.kind, operation.path))
        write_twice(folder)
        return 0

    return forked(work).out.splitlines()


def test_operations_are_seen_in_order(tmp_path: Path) -> None:
    kinds = [line.split()[0] for line in record(tmp_path)]
    assert kinds == ["create", "write", "truncate", "fsync", "rename", "fsync"] * 2


def test_a_kill_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    for number in range(1, 13):
        folder = tmp_path / str(number)
        folder.mkdir()

        def work(folder: Path = folder, number: int = number) -> int:
            Interposition(folder, KillAt(number, torn=True))
            write_twice(folder)
            return 0

        assert forked(work).code == -signal.SIGKILL
        found = snapshot(folder).get("file", b"")
        assert found in ((b"",) if number < 6 else (b"first",) if number < 12 else (b"second",))


def test_a_power_loss_drops_what_was_not_synced(tmp_path: Path) -> None:
    disk = Disk()
    disk.apply(
        [
            Operation("create", "synced"),
            Operation("write", "synced", content=b"whole"),
            Operation("fsync", "synced"),
            Operation("fsync", "."),
            Operation("write", "synced", offset=5, content=b" and more"),
            Operation("create", "unnamed"),
            Operation("write", "unnamed", content=b"lost"),
            Operation("fsync", "unnamed"),
            Operation("rename", "synced", target="renamed"),
        ]
    )
    disk.survivors(tmp_path, never)
    assert snapshot(tmp_path) == {"synced": b"whole"}
    every = tmp_path / "every"
    every.mkdir()
    disk.survivors(every, lambda: True)
    assert snapshot(every) == {"renamed": b"whole and more", "unnamed": b"lost"}


@pytest.mark.parametrize("name", [*damages.ONCE, "flip:99", "cut:500", "grow:7"])
def test_every_damage_changes_the_file_or_its_disk(tmp_path: Path, name: str) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    run.mkdir()
    outside.mkdir()
    (run / "other.json").write_text("{}")
    path = run / "file.json"
    path.write_text('{"a": 1}')
    damages.apply(name, path, outside)
    regular = path.is_file() and not path.is_symlink()
    intact = regular and path.read_text(errors="replace") == '{"a": 1}'
    assert intact == (damages.ONCE.get(name) is damages.untouched)


def test_a_failure_is_listed_with_its_command() -> None:
    table = Table()
    table.add("kills", "a@b 3", Outcome("a@b", "failure", "replay differs"))
    table.add("kills", "a@b 4", Outcome("a@b", "same"))
    lines = list(table.lines())
    assert "| kills: a@b | 2 | 1 | 0 | 0 | 1 |" in lines
    assert "scripts/faults --only kills --trial 'a@b 3'" in lines[-1]


def test_a_traceback_is_no_sentence() -> None:
    assert Ended(2, "", "note: old\ntokenworlds: run.json is damaged\n", 0.1).one_sentence
    assert not Ended(2, "", "Traceback\nKeyError: 'x'\n", 0.1).one_sentence
    assert not Ended(1, "", "tokenworlds: failed\n", 0.1).one_sentence
