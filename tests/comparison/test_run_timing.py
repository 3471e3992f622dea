"""Hours and speed from the times in TensorBoard's files."""

import time
from pathlib import Path

import pytest

from tokenworlds.evaluation.comparison.timing import Timing, read_timing
from tokenworlds.runs.metrics import MetricsFile


def session(run: Path, monkeypatch: pytest.MonkeyPatch, times: dict[int, float]) -> None:
    """Log an event at each of these steps and times."""
    file = MetricsFile(run)
    for step, seconds in times.items():
        monkeypatch.setattr(time, "time", lambda now=seconds: now)
        file.write({"agent_steps": step, "evaluation/return": 1.0})
    file.close()


def test_pauses_between_sessions_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session(tmp_path, monkeypatch, {100: 1000.0, 200: 1010.0, 300: 1030.0})
    session(tmp_path, monkeypatch, {300: 9000.0, 400: 9010.0})
    timing = read_timing(tmp_path)
    assert timing == Timing(seconds=40.0, steps=300)
    assert timing.steps_per_second == pytest.approx(7.5)
    assert timing.hours == pytest.approx(40 / 3600)


def test_a_record_that_is_cut_off_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session(tmp_path, monkeypatch, {100: 1000.0, 200: 1010.0, 300: 1030.0})
    (file,) = (tmp_path / "tensorboard").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert read_timing(tmp_path) == Timing(seconds=10.0, steps=100)


@pytest.mark.parametrize("content", [b"", b"\x00" * 40, b"\xff" * 40])
def test_a_file_without_events_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / "tensorboard" / "events").write_bytes(content)
    assert read_timing(tmp_path) is None


def test_one_event_has_no_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_timing(tmp_path) is None
    session(tmp_path, monkeypatch, {100: 1000.0})
    timing = read_timing(tmp_path)
    assert timing == Timing(seconds=0.0, steps=0)
    assert timing.steps_per_second is None
