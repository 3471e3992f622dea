"""The pool of a sweep, on an engine without processes."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tokenworlds.sweeps import pool as pools
from tokenworlds.sweeps.engine import (
    GIGABYTE,
    LocalEngine,
    Lost,
    ProcessTask,
    Refused,
    memory_of,
)
from tokenworlds.sweeps.logs import failure
from tokenworlds.sweeps.plan import Job, Step
from tokenworlds.sweeps.pool import Pool
from tokenworlds.sweeps.status import Row, rows, share_done


class FakeTask:
    """Ends at its second look, or when it is asked to stop."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.looks = 0
        self.killed = False
        self.placed = True
        self.problem: Exception | None = None

    def is_placed(self) -> bool:
        return self.placed

    def poll(self) -> int | None:
        self.looks += 1
        if self.problem is not None:
            self.looks = 2
            raise self.problem
        return self.code if self.looks > 1 else None

    def stop(self) -> None:
        self.code, self.looks = 130, 1

    def kill(self) -> None:
        self.killed = True


class FakeEngine:
    def __init__(self, slots: int, codes: Callable[[Sequence[str]], int]) -> None:
        self.slots = slots
        self.codes = codes
        self.tasks: list[FakeTask] = []
        self.most = 0

    def has_room(self) -> bool:
        return sum(task.looks <= 1 for task in self.tasks) < self.slots

    def start(self, words: Sequence[str], log: Path) -> FakeTask:
        code = self.codes(words)
        log.parent.mkdir(exist_ok=True)
        log.write_text("step 8\n" if code == 0 else "step 8\ntokenworlds: it does not fit\n")
        self.tasks.append(FakeTask(code))
        self.most = max(self.most, sum(task.looks <= 1 for task in self.tasks))
        return self.tasks[-1]

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "PAUSE", 0.0)


JOBS = [Job(name=f"r{i}", command=f"tokenworlds train r{i}") for i in range(5)]


def states(pool: Pool) -> list[str]:
    return [entry.state for entry in pool.entries]


def test_a_failing_run_takes_no_other_down(tmp_path: Path) -> None:
    engine = FakeEngine(2, lambda words: 2 if "r1" in words else 0)
    seen: list[tuple[str, str]] = []
    pool = Pool(JOBS, tmp_path, engine, lambda entry: seen.append((entry.job.name, entry.state)))
    pool.run(lambda: False, lambda: None)
    assert states(pool) == ["finished", "failed", *["finished"] * 3]
    assert pool.entries[1].reason == "it does not fit"
    assert engine.most == 2
    assert seen[:2] == [("r0", "running"), ("r1", "running")]
    (row,) = [row for row in rows(JOBS, tmp_path) if row.name == "r1"]
    assert (row.state, row.problem) == ("failed", "it does not fit")


def test_an_interrupted_sweep_stops_its_runs_and_starts_no_others(tmp_path: Path) -> None:
    engine = FakeEngine(2, lambda words: 0)
    pool = Pool(JOBS, tmp_path, engine)
    pool.run(lambda: bool(engine.tasks), lambda: None)
    assert states(pool) == ["stopped", "stopped", "waiting", "waiting", "waiting"]


def test_a_second_interruption_kills_all_runs(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    engine = FakeEngine(3, lambda words: 0)
    with pytest.raises(KeyboardInterrupt):
        Pool(JOBS, tmp_path, engine).run(lambda: False, interrupt)
    assert [task.killed for task in engine.tasks] == [True] * 3


def test_a_run_that_another_process_trains_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "ELSEWHERE", 0.0)
    needs = [Step("wait"), Step("nothing")]
    monkeypatch.setattr(pools, "next_step", lambda job, folder: needs.pop(0))
    pool = Pool(JOBS[:1], tmp_path, FakeEngine(1, lambda words: 0))
    pool.advance()
    assert states(pool) == ["elsewhere"]
    pool.advance()
    assert states(pool) == ["finished"]


class LosingEngine(FakeEngine):
    """Loses the first runs that it is given."""

    def __init__(self, losses: Sequence[Exception]) -> None:
        super().__init__(1, lambda words: 0)
        self.losses = list(losses)

    def start(self, words: Sequence[str], log: Path) -> FakeTask:
        task = super().start(words, log)
        task.problem = self.losses.pop(0) if self.losses else None
        return task


def test_a_run_that_loses_its_worker_is_started_again(tmp_path: Path) -> None:
    engine = LosingEngine([Lost("its node is gone")])
    seen: list[tuple[str, str]] = []
    pool = Pool(JOBS[:1], tmp_path, engine, lambda entry: seen.append((entry.state, entry.reason)))
    pool.run(lambda: False, lambda: None)
    assert seen[1:3] == [("waiting", "its node is gone"), ("running", "")]
    assert states(pool) == ["finished"]


@pytest.mark.parametrize(("by_run", "state"), [(True, "failed"), (False, "finished")])
def test_a_run_that_ends_its_workers_fails_at_last(
    by_run: bool, state: str, tmp_path: Path
) -> None:
    # Losses of the whole cluster are not the run's fault.
    pool = Pool(JOBS[:1], tmp_path, LosingEngine([Lost("its worker was lost", by_run)] * 4))
    pool.run(lambda: False, lambda: None)
    assert states(pool) == [state]
    times = "its worker was lost, 4 times in a row at step 0" if by_run else ""
    assert pool.entries[0].reason == times


def test_a_refused_run_fails_with_the_sentence_and_takes_no_other_down(tmp_path: Path) -> None:
    pool = Pool(JOBS[:2], tmp_path, LosingEngine([Refused("n1 does not see the folder")]))
    pool.run(lambda: False, lambda: None)
    assert states(pool) == ["failed", "finished"]
    assert pool.entries[0].reason == "n1 does not see the folder"


def test_a_run_is_queued_until_it_has_its_resources(tmp_path: Path) -> None:
    pool = Pool(JOBS[:1], tmp_path, FakeEngine(1, lambda words: 0))
    task = FakeTask(0)
    task.placed = False
    pool._engine.start = lambda words, log: task  # type: ignore[method-assign]
    pool.advance()
    assert states(pool) == ["queued"]
    task.placed = True
    pool.advance()
    assert states(pool) == ["running"]


@pytest.mark.parametrize(
    ("available", "has_room"), [(3 * GIGABYTE, False), (4 * GIGABYTE, True), (None, True)]
)
def test_a_run_starts_only_if_memory_lasts_for_all(
    available: int | None, has_room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One run holds 1 GB and once held 2 GB: it may grow by 1, and the next run needs 2.
    held = property(lambda task: (GIGABYTE, int(2.5 * GIGABYTE)))
    monkeypatch.setattr(ProcessTask, "memory", held)
    engine = LocalEngine(4, 1, lambda: available)
    engine._tasks = [FakeTask(0)]  # type: ignore[list-item]
    monkeypatch.setattr(FakeTask, "memory", held, raising=False)
    assert engine.has_room() == has_room


def test_memory_of_this_process_is_known() -> None:
    now, most = memory_of(os.getpid())
    assert 0 < now <= most
    assert memory_of(2**22 + 1) == (0, 0)


def test_a_killed_run_has_its_signal_as_the_reason(tmp_path: Path) -> None:
    assert failure(tmp_path / "log", -9) == "killed by signal 9"
    assert failure(tmp_path / "log", 1).startswith("exit code 1, and nothing in")


def test_the_share_of_a_sweep_counts_runs_that_have_not_begun() -> None:
    found = [Row(name="a", state="finished", step=100, steps=100), Row(name="b", state="waiting")]
    assert share_done(found) == pytest.approx(0.5)
    assert share_done([Row(name="a", state="waiting")]) == 0.0
