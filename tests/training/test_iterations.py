"""The iterations of Smaller World Models, with tokenizer and world in alternation."""

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_examples import SMALL_ITERATIONS, after, course

from tokenworlds.core.config import ConfigOf
from tokenworlds.core.description import from_json, to_json
from tokenworlds.core.overrides import override
from tokenworlds.core.progress import Progress
from tokenworlds.core.protocols import Schedule
from tokenworlds.training.schedules.epochs import Epochs
from tokenworlds.training.schedules.iterations import Alternation, Iterations

PAPER = Iterations.Config().build(num_envs=1, total=102_400)
NAMES = ("tokenizer", "world", "behaviour")


def learned(iteration: int) -> tuple[int, ...]:
    """Updates in one iteration, counted from 1."""
    begin, end = PAPER.end(iteration - 1).updates, PAPER.end(iteration).updates
    return tuple(end[name] - begin.get(name, 0) for name in NAMES)


@pytest.mark.parametrize(
    ("iteration", "steps", "each", "updates"),
    [
        (1, 12_800, 291, (16_000 + 20_440, 40_740, 1000)),
        (2, 19_200, 436, (7_008, 13_952, 1000)),
        (8, 57_600, 1308, (4_807, 14_388, 2000)),
        (12, 83_200, 1889, (5_040, 15_112, 2000)),
        (15, 102_400, 2324, (4_650, 13_944, 3000)),
    ],
)
def test_the_iterations_of_the_paper(
    iteration: int, steps: int, each: int, updates: tuple[int, ...]
) -> None:
    assert PAPER.end(iteration).steps == steps
    assert PAPER.alternations[iteration - 1].updates == each
    assert learned(iteration) == updates


def test_an_epoch_of_the_paper_grows_with_the_collected_steps() -> None:
    expected = {3: 582, 7: 1163, 9: 1453, 11: 1743, 13: 2034, 14: 2179}
    assert {i: PAPER.alternations[i - 1].updates for i in expected} == expected
    assert [learned(i)[2] for i in range(1, 16)].count(1000) == 12


def test_the_updates_of_a_whole_run_of_the_paper() -> None:
    goal = PAPER.goal
    assert PAPER.rounds == 15
    assert goal.steps == 102_400
    assert goal.updates["behaviour"] == 19_000
    assert round(goal.updates["world"], -2) == 241_100
    assert round(goal.updates["tokenizer"] - 16_000, -2) == 89_700


@pytest.mark.parametrize(("first", "total"), [(12_800, 25_600), (50, 231), (9, 47)])
def test_an_epoch_has_the_mean_length_of_blocks_cut_from_random_offsets(
    first: int, total: int
) -> None:
    config = Iterations.Config(steps=first // 2 + 1, first_steps=first, sequences=1, length=11)
    schedule = config.build(num_envs=1, total=total)
    ends = [schedule.end(done).steps for done in range(schedule.rounds + 1)]
    for done in range(schedule.rounds):
        blocks = [end - begin for begin, end in pairwise(ends[: done + 2])]
        cut = sum(max(block - place, 0) // 11 for block in blocks for place in range(11))
        assert schedule.alternations[done].updates == -(-cut // 11)


def letters(alternation: Alternation) -> str:
    """A letter for each update."""
    phases = alternation.phases(0, 0)
    return "".join(name[0] * count for phase in phases for name, count in phase.updates.items())


@pytest.mark.parametrize(
    ("alternation", "expected"),
    [
        (Alternation(epochs=2, updates=5, interval=2), "twwtwwtw" * 2),
        (Alternation(epochs=2, updates=4, interval=2), "twwtwwt" * 2),
        (Alternation(epochs=1, updates=7, interval=3), "twwwtwwwtw"),
        (Alternation(epochs=2, updates=2, interval=3), "tww" * 2),
        (Alternation(epochs=3, updates=0, interval=2), ""),
    ],
)
def test_the_tokenizer_updates_before_every_interval_of_world_updates(
    alternation: Alternation, expected: str
) -> None:
    assert letters(alternation) == expected
    assert alternation.tokenizer_updates == expected.count("t")
    assert alternation.world_updates(alternation.tokenizer_updates) == expected.count("w")


def test_the_first_iteration_acts_at_random_and_warms_up_the_tokenizer() -> None:
    schedule = SMALL_ITERATIONS.build(num_envs=1, total=100)
    phases, progress = list(schedule.phases(Progress())), Progress()
    for phase in phases:
        assert phase.random == (phase.collect > 0 and progress.steps < 70)
        if "world" in phase.updates:
            assert progress.updates["tokenizer"] >= 23
        if "behaviour" in phase.updates:
            iteration = schedule.done(progress) + 1
            assert progress.updates["world"] == schedule.end(iteration).updates["world"]
        progress = after(progress, phase, 1)
    assert progress == schedule.goal


@pytest.mark.parametrize("total", [1, 5, 69, 70, 71, 500])
@pytest.mark.parametrize("num_envs", [1, 4, 64])
def test_iterations_divide_their_steps_among_environments_and_end_with_the_run(
    num_envs: int, total: int
) -> None:
    schedule = SMALL_ITERATIONS.build(num_envs=num_envs, total=total)
    ends = [schedule.end(done).steps for done in range(schedule.rounds + 1)]
    nominal = [0, *range(70, total, 30), total]
    assert ends == [-(-steps // num_envs) * num_envs for steps in nominal]


def test_no_phase_is_long() -> None:
    for phase in SMALL_ITERATIONS.build(num_envs=4, total=500).phases(Progress()):
        assert 1 <= phase.collect + sum(phase.updates.values()) <= 10


@pytest.mark.parametrize("first", [0, 70, 60, 13])
@pytest.mark.parametrize("num_envs", [1, 7])
def test_an_interval_of_steps_is_due_at_the_end_of_each_iteration(
    first: int, num_envs: int
) -> None:
    words = [f"schedule.first_steps={first}"]
    plan = override(Plan(SMALL_ITERATIONS), words)
    schedule: Any = plan.schedule.build(num_envs=num_envs, total=200)
    points = list(course(schedule.phases(Progress()), num_envs))
    passed = [p for q, p in pairwise(points) if schedule.step(p) // 30 > schedule.step(q) // 30]
    assert passed == [schedule.end(done) for done in range(1, schedule.rounds + 1)]


@settings(max_examples=60, deadline=None)
@given(
    total=st.integers(1, 300),
    num_envs=st.integers(1, 20),
    first=st.integers(0, 90),
    epochs=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    intervals=st.lists(st.integers(1, 15), min_size=1, max_size=3),
    place=st.floats(0, 1),
)
def test_iterations_continue_from_any_progress(
    total: int,
    num_envs: int,
    first: int,
    epochs: list[int],
    intervals: list[int],
    place: float,
) -> None:
    config = Iterations.Config(
        steps=40,
        first_steps=first,
        warm_up_updates=first // 2,
        epochs=tuple(epochs),
        sequences=1,
        length=5,
        intervals=tuple(intervals),
        batches=(first % 3,),
    )
    schedule = config.build(num_envs=num_envs, total=total)
    phases = list(schedule.phases(Progress()))
    points = list(course(phases, num_envs))
    assert points[-1].steps == schedule.goal.steps
    assert {name: points[-1].updates.get(name, 0) for name in NAMES} == schedule.goal.updates
    number = round(place * len(phases))
    assert list(schedule.phases(points[number])) == phases[number:]


@dataclass(frozen=True)
class Plan:
    schedule: ConfigOf[Schedule]


def test_iterations_are_chosen_by_name_and_stored_as_json() -> None:
    words = ["schedule=iterations", "schedule.epochs=[3,2]", "schedule.intervals.1=4"]
    plan = override(Plan(Epochs.Config(steps=50)), words)
    expected = Iterations.Config(steps=50, first_steps=0, epochs=(3, 2), intervals=(2, 4, 3))
    assert plan.schedule == expected
    assert from_json(json.loads(json.dumps(to_json(expected)))) == expected
    assert override(plan, ["schedule=epochs"]).schedule == Epochs.Config(steps=50)


def test_the_hint_for_more_steps_before_the_first_update_is_first_steps() -> None:
    assert Iterations.prefill_key == "schedule.first_steps"


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"intervals": (2, 0)},
        {"length": 0},
        {"first_steps": -1},
        {"epochs": (3, -1)},
        {"batches": ()},
    ],
)
def test_invalid_iterations(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is invalid"):
        Iterations.Config(**wrong)
