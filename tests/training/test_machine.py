"""What a run notes of the code that it was started with."""

import subprocess
from pathlib import Path

import pytest

from tokenworlds.runs import machine


def checkout(folder: Path) -> Path:
    """A repository with one commit; returns a file of it."""
    tracked = folder / "tracked.py"
    tracked.write_text("")
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "tracked.py"], [*identity, "commit", "-qm", "First"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)
    return tracked


def test_code_of_a_checkout_has_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "__file__", str(checkout(tmp_path)))
    commit = machine.git_commit()
    assert commit is not None
    assert len(commit) == 40


def test_a_package_installed_inside_the_checkout_of_another_project_has_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout(tmp_path)
    installed = tmp_path / "machine.py"
    installed.write_text("")
    monkeypatch.setattr(machine, "__file__", str(installed))
    assert machine.git_commit() is None
