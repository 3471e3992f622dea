"""The step of an extended run, for schedules whose rounds depend on the number of steps."""

from collections.abc import Iterator

import pytest
from schedule_examples import after

from tokenworlds.core.config import ConfigOf
from tokenworlds.core.progress import Progress
from tokenworlds.core.protocols import Schedule
from tokenworlds.runs.extension import Extended
from tokenworlds.runs.spec import Extension
from tokenworlds.training.schedules.epochs import Epochs
from tokenworlds.training.schedules.interleaved import Interleaved
from tokenworlds.training.schedules.iterations import Iterations

SCHEDULES: dict[str, ConfigOf[Schedule]] = {
    "interleaved": Interleaved.Config(warm_up=16, updates={"world": 0.5}),
    "epochs": Epochs.Config(steps=16, first_steps=32, updates={"world": 4}),
    "final epochs": Epochs.Config(steps=16, final_epochs=3, updates={"world": 4}),
    "iterations": Iterations.Config(
        steps=16, first_steps=32, warm_up_updates=3, epochs=(2, 1), batches=(2,)
    ),
}


def built(name: str, total: int) -> Schedule:
    schedule: Schedule = SCHEDULES[name].build(num_envs=2, total=total)
    return schedule


def course(schedule: Schedule, progress: Progress) -> Iterator[Progress]:
    """The progress after each phase."""
    for phase in schedule.phases(progress):
        progress = after(progress, phase, num_envs=2)
        yield progress


def extended(name: str, total: int, more: int) -> tuple[Progress, Extended]:
    """Where a run ends, and its schedule for more steps."""
    short = built(name, total)
    extension = Extension(
        step=short.step(short.goal), steps=short.goal.steps, updates=short.goal.updates
    )
    return short.goal, Extended(built(name, more), extension)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(("total", "more"), [(48, 96), (40, 44), (50, 110)])
def test_the_step_of_an_extended_run_never_goes_back(name: str, total: int, more: int) -> None:
    begin, schedule = extended(name, total, more)
    passed = [begin, *course(schedule, begin)]
    steps = [schedule.step(progress) for progress in passed]
    assert steps == sorted(steps)
    assert steps[0] == schedule.extension.step < steps[-1]
    assert passed[-1].reaches(schedule.goal)


@pytest.mark.parametrize("name", ["interleaved", "epochs", "iterations"])
def test_a_run_that_ends_with_a_round_is_extended_as_if_it_had_been_longer(name: str) -> None:
    begin, schedule = extended(name, 64, 96)
    at_once = built(name, 96)
    whole = list(course(at_once, Progress()))
    rest = [progress for progress in whole if progress.steps > begin.steps]
    assert list(course(schedule, begin))[-len(rest) :] == rest
    assert [schedule.step(each) for each in rest] == [at_once.step(each) for each in rest]


def test_final_epochs_that_were_made_already_are_not_repeated() -> None:
    begin, schedule = extended("final epochs", 48, 96)
    updates = list(course(schedule, begin))[-1].updates
    assert updates == built("final epochs", 96).goal.updates
