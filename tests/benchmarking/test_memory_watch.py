"""What a piece of work takes of the memory is seen, and what is left is known."""

import sys
from pathlib import Path

import pytest
import torch

from tokenworlds.benchmarking import memory
from tokenworlds.benchmarking.memory import Memory, watch

MIB = 2**20
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")


@linux
def test_memory_that_is_given_back_at_once_is_seen_and_not_held_against_the_next() -> None:
    def take() -> int:
        return torch.ones(64 * MIB).numel()

    made, first = watch(take)
    assert made == 64 * MIB
    assert 240 * MIB < first.growth < 300 * MIB
    _, second = watch(lambda: None)
    assert second.growth < 40 * MIB


def test_growth_is_scaled_and_what_was_there_is_not() -> None:
    assert Memory(100, 150, None).full(4.0) == 300
    assert Memory(100, 90, None).full(4.0) == 100


def test_half_of_what_is_available_may_be_taken() -> None:
    assert Memory(0, 10, 80).allows(4.0)
    assert not Memory(0, 10, 79).allows(4.0)
    assert Memory(0, 10, None).allows(1e9)


def told_by(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def test_a_container_may_leave_less_than_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "PROC", told_by(tmp_path, meminfo="MemAvailable:   2048 kB\n"))
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert memory.available() == 2048 * 1024
    told_by(tmp_path, memory_max="max\n", memory_current="5\n")
    assert memory.available() == 2048 * 1024
    told_by(tmp_path, memory_max="1000\n", memory_current="400\n")
    assert memory.available() == 600


def test_where_the_system_tells_nothing_the_highest_mark_stands_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "PROC", tmp_path / "nowhere")
    monkeypatch.setattr(memory, "CGROUP", tmp_path / "nowhere")
    made, seen = watch(lambda: "done")
    assert made == "done"
    assert seen.available is None
    assert seen.peak >= seen.before > 10 * MIB
