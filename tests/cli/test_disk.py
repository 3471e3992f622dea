"""Full disks, read-only disks and truncated checkpoints give one sentence and lose nothing."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_runs import final_weights, newest_checkpoint, sentence, stop_run, train

from tokenworlds.cli import main

HOLDING = """
import fcntl, sys
lock = open("run/run.json")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
pytestmark = pytest.mark.usefixtures("_no_report")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A small tmpfs, where it can be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if sys.platform != "linux" or os.getuid() != 0 or not mount(disk, "size=4m"):
        pytest.skip("only root on Linux can mount a disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def mount(disk: Path, options: str) -> bool:
    again = ",remount" if os.path.ismount(disk) else ""
    command = ["mount", "-t", "tmpfs", "-o", options + again, "tmpfs", str(disk)]
    return subprocess.run(command, capture_output=True).returncode == 0


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1024))
    return ballast


def test_a_full_disk_loses_nothing(
    small_disk: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small_disk / "run"
    stop_run(run, 24)
    ballast = fill(small_disk)
    capsys.readouterr()
    assert main(["resume", str(run)]) == 2
    text = sentence(capsys.readouterr().err)
    assert text.startswith(f"cannot write to {run}: no space left on device; nothing is lost")
    assert f"tokenworlds resume {run}" in text
    ballast.unlink()
    assert main(["resume", str(run)]) == 0
    assert final_weights(run) == final_weights(finished)


def test_a_disk_that_is_full_at_the_start(
    small_disk: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small_disk / "run"
    ballast = fill(small_disk)
    assert main(train(run)) == 2
    assert "no space left on device" in sentence(capsys.readouterr().err)
    ballast.unlink()
    assert main(train(run)) == 0
    assert final_weights(run) == final_weights(finished)


@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of files")
@pytest.mark.parametrize("room", [0, 512, 3000, 20_000])
def test_wherever_writing_fails_the_run_can_be_resumed(
    room: int, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import resource

    run = Path("run")
    stop_run(run, 24)
    capsys.readouterr()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        code = main(["resume", str(run)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == 2
    assert "file too large; nothing is lost" in sentence(capsys.readouterr().err)
    assert main(["resume", str(run)]) == 0
    assert final_weights(run) == final_weights(finished)


def test_a_read_only_disk(
    small_disk: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small_disk / "run"
    stop_run(run, 24)
    assert mount(small_disk, "ro")
    for words in (train(small_disk / "other"), ["resume", str(run)], ["evaluate", str(run)]):
        capsys.readouterr()
        assert main(words) == 2
        assert sentence(capsys.readouterr().err).startswith(f"cannot write to {small_disk}")
    assert mount(small_disk, "rw")
    assert main(["resume", str(run)]) == 0
    assert final_weights(run) == final_weights(finished)


@pytest.mark.skipif(
    sys.platform == "win32" or os.getuid() == 0, reason="root may write where others may not"
)
def test_a_folder_without_write_permission(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o555)
    assert main(train(theirs / "run")) == 2
    assert "permission denied" in sentence(capsys.readouterr().err)


def test_a_folder_below_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(train(tmp_path / "file" / "run")) == 2
    assert "file/run: not a directory" in sentence(capsys.readouterr().err)


def cut_short(checkpoint: Path) -> None:
    weights = checkpoint / "weights.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)


def test_a_truncated_checkpoint_is_skipped(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path("run")
    stop_run(run, 40)
    cut_short(newest_checkpoint(run))
    capsys.readouterr()
    assert main(["evaluate", str(run), "--episodes", "1"]) == 0
    assert "checkpoint step-000000040 is skipped: " in capsys.readouterr().err
    assert main(["resume", str(run)]) == 0
    assert "checkpoint step-000000040 is skipped: " in capsys.readouterr().err
    assert final_weights(run) == final_weights(finished)


def test_a_run_without_a_usable_checkpoint_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    run = Path("run")
    stop_run(run, 24)
    for checkpoint in (run / "checkpoints").glob("step-*"):
        cut_short(checkpoint)
    for words in (["evaluate", str(run)], ["resume", str(run)], ["resume", str(run)]):
        capsys.readouterr()
        assert main(words) == 2
        text = sentence(capsys.readouterr().err)
        assert text.startswith(
            "run has no usable checkpoint: all are damaged (checkpoint step-0000"
        )


def test_a_run_that_lost_its_checkpoints_is_not_started_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = Path("run")
    stop_run(run, 24)
    shutil.rmtree(run / "checkpoints")
    before = contents(run)
    for words in (["evaluate", str(run)], ["resume", str(run)]):
        capsys.readouterr()
        assert main(words) == 2
        text = sentence(capsys.readouterr().err)
        assert text == "run has no usable checkpoint: its checkpoints are missing"
    assert contents(run) == before


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_killed_before_its_first_checkpoint_is_trained_again(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path("run")
    (run / "checkpoints" / ".partial-step-000000000").mkdir(parents=True)
    (run / ".starting").write_bytes(b'{"format"')
    assert main(["resume", str(run)]) == 2
    assert "was stopped before it began: train it again" in sentence(capsys.readouterr().err)
    assert main(train(run)) == 0
    assert final_weights(run) == final_weights(finished)


def test_a_start_killed_while_it_deletes_an_earlier_start_is_trained_again(
    finished: Path,
) -> None:
    run = Path("run")
    (run / ".deleting-checkpoints" / ".partial-step-000000000").mkdir(parents=True)
    (run / ".starting").touch()
    assert main(train(run)) == 0
    assert final_weights(run) == final_weights(finished)
    assert not (run / ".deleting-checkpoints").exists()


def test_a_folder_with_other_files_is_not_taken_for_a_killed_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = Path("run")
    run.mkdir()
    (run / ".starting").touch()
    (run / "thesis.txt").write_text("mine")
    assert main(train(run)) == 2
    assert "run is not empty" in sentence(capsys.readouterr().err)
    assert (run / "thesis.txt").read_text() == "mine"


def test_a_loss_that_is_not_finite_keeps_the_last_checkpoint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = Path("run")
    assert main(train(run, "learning.world.scales.reward=1e300")) == 1
    text = sentence(capsys.readouterr().err)
    assert "update 1 of world: the total not finite" in text
    assert "the last checkpoint is in run" in text
    assert main(["evaluate", str(run), "--episodes", "1"]) == 0


def test_one_process_at_a_time(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Path("run")
    stop_run(run, 8)
    capsys.readouterr()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert main(["resume", str(run)]) == 2
        assert sentence(capsys.readouterr().err) == "run is in use by another process"
        holder.communicate()
