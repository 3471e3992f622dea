"""Metrics and throughput of a run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tokenworlds.runs.events import read_metrics
from tokenworlds.runs.metrics import Average, MetricsFile
from tokenworlds.training import throughput
from tokenworlds.training.throughput import EPISODES, Throughput

VALUES: list[dict[str, Tensor | float]] = [
    {"loss": torch.tensor(1.0), "return": 3.0},
    {"loss": torch.tensor(2.0), "count": torch.tensor(4)},
    {"loss": torch.tensor(6.0), "return": torch.tensor(5.0)},
]


def filled() -> Average:
    average = Average()
    for values in VALUES:
        average.add(values)
    return average


def test_means_cover_the_values_since_the_last_take() -> None:
    average = filled()
    assert average.take() == {"loss": 3.0, "return": 4.0, "count": 4.0}
    assert average.take() == {}


def test_returns_in_double_precision_mix_with_losses() -> None:
    """An environment's rewards may be NumPy doubles, and the first value of a window."""
    average = Average()
    average.add({"return": np.float64(0.1)})
    average.add({"loss": torch.tensor(2.0)})
    resumed = Average()
    resumed.restore(average.state())
    assert average.take() == resumed.take() == {"return": pytest.approx(0.1), "loss": 2.0}


def test_values_that_were_not_taken_survive_a_resume() -> None:
    resumed = Average()
    resumed.restore(filled().state())
    assert resumed.state() == {"loss": [1.0, 2.0, 6.0], "return": [3.0, 5.0], "count": [4.0]}
    assert resumed.take() == filled().take()


def test_each_device_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    average, fetched, fetch = filled(), list[int](), Tensor.cpu

    def count(tensor: Tensor) -> Tensor:
        fetched.append(tensor.numel())
        return fetch(tensor)

    monkeypatch.setattr(Tensor, "cpu", count)
    average.take()
    assert fetched == [5]


def test_a_restored_average_continues() -> None:
    values: list[dict[str, Tensor | float]]
    values = [{"loss": torch.tensor(0.1) * k, "return": 0.3 * k} for k in range(7)]
    whole, first, second = Average(), Average(), Average()
    for number, value in enumerate(values):
        whole.add(value)
        (first if number < 4 else second).add(value)
        if number == 3:
            second.restore(first.state())
    assert second.take() == whole.take()
    assert second.take() == {}


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"agent_steps": 1}\n{"agent_steps": 2}\n{"agent_st')
    events, notes = read_metrics(tmp_path)
    assert [event["agent_steps"] for event in events] == [1, 2]
    assert notes == []
    assert read_metrics(tmp_path / "nowhere") == ([], [])


@pytest.mark.parametrize("line", ["{", "\xff", "[1]", '{"agent_steps": "many"}', '{"loss": 1}'])
def test_lines_after_a_damaged_one_are_left_out_with_a_note(tmp_path: Path, line: str) -> None:
    content = '{"agent_steps": 1}\n' + line + '\n{"agent_steps": 3}\n'
    (tmp_path / "metrics.jsonl").write_bytes(content.encode("latin-1"))
    events, notes = read_metrics(tmp_path)
    assert events == [{"agent_steps": 1}]
    assert "is damaged after 19 bytes" in notes[0]


def test_metrics_are_cut_back_to_a_checkpoint(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path)
    assert metrics.state()["size"] == 0
    metrics.write({"agent_steps": 1, "loss": 0.5})
    state = metrics.state()
    metrics.write({"agent_steps": 2, "loss": 0.4})
    assert metrics.state()["size"] > state["size"]
    assert metrics.restore(state) == []
    assert metrics.state() == state
    metrics.write({"agent_steps": 2, "loss": 0.3})
    metrics.close()
    assert [event["loss"] for event in read_metrics(tmp_path)[0]] == [0.5, 0.3]


@pytest.mark.parametrize("damage", [b"", b'{"agent_steps": 1, "loss": 0.9}\n', b'{"agent_st'])
def test_metrics_that_changed_are_kept_as_far_as_they_can_be_read(
    tmp_path: Path, damage: bytes
) -> None:
    metrics = MetricsFile(tmp_path)
    metrics.write({"agent_steps": 1, "loss": 0.5})
    state = metrics.state()
    (tmp_path / "metrics.jsonl").write_bytes(damage)
    (note,) = metrics.restore(state)
    assert "is not as it was written" in note
    metrics.write({"agent_steps": 2, "loss": 0.3})
    metrics.close()
    events, notes = read_metrics(tmp_path)
    assert events[-1] == {"agent_steps": 2, "loss": 0.3}
    assert notes == []


def test_values_that_json_cannot_hold_are_left_out(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path)
    metrics.write({"agent_steps": 1, "loss": float("nan"), "norm": float("inf")})
    metrics.close()
    assert read_metrics(tmp_path) == ([{"agent_steps": 1}], [])


def test_tensorboard_has_the_same_scalars(tmp_path: Path) -> None:
    for loss in (0.5, 0.25):
        metrics = MetricsFile(tmp_path)
        metrics.write({"agent_steps": 8, "world/loss/total": loss})
        metrics.close()
    assert [scalars(path) for path in sorted((tmp_path / "tensorboard").iterdir())] == [
        {"agent_steps": (8, 8.0), "world/loss/total": (8, 0.5)},
        {"agent_steps": (8, 8.0), "world/loss/total": (8, 0.25)},
    ]


def scalars(path: Path) -> dict[str, tuple[int, float]]:
    """The scalars as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    loaded: list[Any] = list(LegacyEventFileLoader(str(path)).Load())
    assert loaded[1].session_log.status == 1, "a resumed run must replace repeated steps"
    return {v.tag: (e.step, v.simple_value) for e in loaded for v in e.summary.value}


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


def test_the_time_left_counts_updates_and_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(throughput, "time", clock)
    measured = Throughput()
    work = {"agent_steps": 1000, "world_updates": 250, "behaviour_updates": 0}
    assert measured.seconds_left(work, 20) is None
    for _ in range(3):
        with measured.measure("agent_steps", 8):
            clock.now += 0.5
        with measured.measure("world_updates", 2):
            clock.now += 1.5
    assert measured.rates() == {"agent_steps": 16.0, "world_updates": pytest.approx(4 / 3)}
    assert measured.seconds_left(work, 20) == pytest.approx(1000 / 16 + 250 * 0.75)
    with measured.measure(EPISODES, 10):
        clock.now += 5.0
    assert measured.seconds_left(work, 20) == pytest.approx(260.0)
    assert measured.seconds_left({**work, "behaviour_updates": 1}, 20) is None
    assert measured.seconds_left({"agent_steps": 0}, 20) == pytest.approx(10.0)


def test_throughput_uses_recent_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(throughput, "time", clock)
    measured = Throughput()
    for seconds in [9.0] * 100 + [1.0] * throughput.WINDOW:
        with measured.measure("agent_steps", 1):
            clock.now += seconds
    assert measured.seconds_left({"agent_steps": 10}, 0) == pytest.approx(10.0)
