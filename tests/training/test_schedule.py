"""Schedules: exact numbers of updates, and continuing from any progress."""

import itertools

import pytest
from schedule_examples import SMALL, SMALL_ITERATIONS, course

from tokenworlds.core.progress import Progress
from tokenworlds.core.protocols import Schedule
from tokenworlds.training.schedules.interleaved import Interleaved


def interleaved(warm_up: int, total: int, num_envs: int, **updates: float) -> Interleaved:
    return Interleaved.Config(warm_up=warm_up, updates=updates).build(
        num_envs=num_envs, total=total
    )


def test_random_steps_come_before_updates() -> None:
    phases = interleaved(10, 100, 1, world=1.0).phases(Progress())
    *warm_up, first = itertools.islice(phases, 11)
    assert all((each.collect, each.random, each.updates) == (1, True, {}) for each in warm_up)
    assert (first.collect, first.random, dict(first.updates)) == (1, False, {"world": 1})


@pytest.mark.parametrize(
    ("ratio", "num_envs"), [(1.0, 1), (0.25, 4), (1 / 3, 2), (2.5, 3), (0.1, 7)]
)
def test_updates_follow_the_ratio_without_drift(ratio: float, num_envs: int) -> None:
    schedule = interleaved(0, 300 * num_envs, num_envs, world=ratio)
    for progress in course(schedule.phases(Progress()), num_envs):
        assert progress.updates.get("world", 0) == int(progress.steps * ratio + 1e-9)


@pytest.mark.parametrize(("warm_up", "total"), [(10, 60), (10, 59), (80, 60), (0, 1)])
def test_an_interleaved_run_ends_with_its_steps(warm_up: int, total: int) -> None:
    schedule = interleaved(warm_up, total, 4, world=0.3)
    *_, end = course(schedule.phases(Progress()), 4)
    assert end.steps == -(-total // 4) * 4 == schedule.step(end)
    assert end.reaches(schedule.goal)
    assert (schedule.goal.steps, schedule.goal.update_count) == (end.steps, end.update_count)


SCHEDULES = [
    (interleaved(10, 230, 4, world=0.3, behaviour=1.7), 4),
    (SMALL.build(num_envs=1, total=200), 1),
    (SMALL.build(num_envs=16, total=300), 16),
    (SMALL.build(num_envs=64, total=300), 64),
    (SMALL_ITERATIONS.build(num_envs=1, total=230), 1),
    (SMALL_ITERATIONS.build(num_envs=64, total=230), 64),
]


@pytest.mark.parametrize(("schedule", "num_envs"), SCHEDULES)
def test_a_schedule_continues_from_any_progress(schedule: Schedule, num_envs: int) -> None:
    whole = list(schedule.phases(Progress()))
    points = list(course(whole, num_envs))
    assert len(points) > 30
    for number, progress in enumerate(points):
        assert list(schedule.phases(progress)) == whole[number:]
        assert progress.reaches(schedule.goal) == (number == len(whole))


@pytest.mark.parametrize(("schedule", "num_envs"), SCHEDULES)
def test_the_step_of_the_run_never_decreases(schedule: Schedule, num_envs: int) -> None:
    steps = [schedule.step(progress) for progress in course(schedule.phases(Progress()), num_envs)]
    assert steps[0] == 0
    assert steps == sorted(steps)
    assert steps[-1] == schedule.step(schedule.goal) > steps[-2]
