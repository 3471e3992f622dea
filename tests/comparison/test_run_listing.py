"""The state of runs, as their folders tell it."""

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from synthetic_runs import STEPS, Invented, spec_of, write_run

from tokenworlds.core.files import CHECKSUM, checksum, read_signed_json
from tokenworlds.evaluation.comparison.listing import find_runs, list_run
from tokenworlds.runs.folder import RunFolder


def test_a_run_that_was_evaluated_at_its_last_step_is_finished(tmp_path: Path) -> None:
    listed = list_run(write_run(tmp_path / "run", Invented(end=0.5, spread=0.0)))
    assert (listed.state, listed.step, listed.problem) == ("finished", STEPS, "")
    assert listed.score is not None
    assert (listed.score.value, listed.score.kind) == (0.5, "final")


def test_a_stopped_run_shows_its_step_and_its_last_evaluation(tmp_path: Path) -> None:
    run = Invented(reached=500, start=0.0, end=1.0, spread=0.0, evaluations=3)
    listed = list_run(write_run(tmp_path / "run", run))
    assert (listed.state, listed.step) == ("stopped", 500)
    assert listed.score is not None
    assert (listed.score.kind, listed.score.step) == ("evaluation", 500)
    assert listed.score.value == pytest.approx(0.5**0.7)


def test_a_locked_run_is_running(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", Invented(reached=500))
    folder = RunFolder.open(path)
    folder.lock()
    try:
        assert list_run(path).state == "running"
    finally:
        folder.unlock()
    assert list_run(path).state == "stopped"


def test_a_run_can_be_locked_although_somebody_is_looking_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_run(tmp_path / "run", Invented(reached=500))
    looking = os.open(path / "run.json", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda seconds: os.close(looking) if seconds else None)
    folder = RunFolder.open(path)
    folder.lock()
    folder.unlock()


def test_looking_at_a_run_leaves_no_lock(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", Invented(reached=500))
    list_run(path)
    descriptor = os.open(path / "run.json", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


def test_a_run_before_its_first_checkpoint_is_stopped_at_step_zero(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(spec_of(Invented()))
    assert list_run(tmp_path / "run").state == "running"
    folder.unlock()
    listed = list_run(tmp_path / "run")
    assert (listed.state, listed.step, listed.score) == ("stopped", 0, None)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("run.json", b"{", "is not JSON"),
        ("run.json", b"[]", "does not hold an object"),
        ("run.json", b'{"format": 2}', "it has format 2"),
        ("run.json", b'{"format": 3, "run": {}}', "does not describe a run"),
        ("evaluation.json", b"{}", "checksum"),
        ("evaluation.json", b'{"returns": [NaN]}', "NaN is not JSON"),
    ],
)
def test_damage_is_named(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    path = write_run(tmp_path / "run", Invented())
    (path / name).write_bytes(content)
    listed = list_run(path)
    assert listed.state == "damaged"
    assert f"{path / name} is damaged" in listed.problem
    assert reason in listed.problem


@pytest.mark.parametrize("change", [{"returns": []}, {"returns": [1e999]}, {"agent_steps": "1"}])
def test_values_that_no_evaluation_has_are_damage(tmp_path: Path, change: dict[str, Any]) -> None:
    path = write_run(tmp_path / "run", Invented())
    document = {**read_signed_json(path, "evaluation.json"), **change}
    text = json.dumps({**document, CHECKSUM: checksum(document)}).replace("Infinity", "1e999")
    (path / "evaluation.json").write_text(text)
    assert "evaluation.json is damaged" in list_run(path).problem


def test_steps_that_no_run_has_are_no_events(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", Invented(reached=500, evaluations=1))
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"agent_steps": 1e300, "evaluation/return": 5.0}\n')
    listed = list_run(path)
    assert (listed.state, listed.step) == ("stopped", 500)
    assert listed.score is not None
    assert listed.score.value != 5.0


def test_a_folder_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_run(tmp_path / "runs" / "closed", Invented())
    scandir = os.scandir

    def refuse(folder: Path) -> Any:
        if Path(folder) == path:
            raise PermissionError(13, "Permission denied", str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    assert find_runs(tmp_path / "runs") == [path]


def test_a_run_without_checkpoints_is_damaged(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", Invented(reached=500))
    for folder in (path / "checkpoints").glob("step-*"):
        folder.rename(path / "elsewhere")
    assert list_run(path).problem == f"{path} has no checkpoint"


def test_listing_changes_nothing(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", Invented(reached=500))

    def seen() -> dict[Path, tuple[int, int]]:
        found = [path, *path.rglob("*")]
        return {each: (each.stat().st_mtime_ns, each.stat().st_size) for each in found}

    before = seen()
    list_run(path)
    assert seen() == before


def test_runs_are_found_below_a_folder_without_following_links(tmp_path: Path) -> None:
    first = write_run(tmp_path / "runs" / "a", Invented(reached=500))
    second = write_run(tmp_path / "runs" / "deeper" / "b", Invented(reached=500))
    os.symlink(tmp_path / "runs", tmp_path / "runs" / "deeper" / "again")
    (tmp_path / "runs" / "notes").mkdir()
    assert find_runs(tmp_path / "runs") == [first, second]
    assert find_runs(first) == [first]
