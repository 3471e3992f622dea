"""The epochs of the papers, for any number of environments."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_examples import SMALL, course

from tokenworlds.core.config import ConfigOf
from tokenworlds.core.description import from_json, to_json
from tokenworlds.core.errors import UserError
from tokenworlds.core.overrides import override
from tokenworlds.core.progress import Phase, Progress
from tokenworlds.core.protocols import Schedule
from tokenworlds.training.schedules.epochs import Epochs
from tokenworlds.training.schedules.interleaved import Interleaved

IRIS = Epochs.Config(
    steps=200,
    final_epochs=100,
    updates={"tokenizer": 200, "world": 200, "behaviour": 200},
    start_after={"tokenizer": 5, "world": 25, "behaviour": 50},
)
DELTA_ATARI = Epochs.Config(
    steps=200,
    first_steps=2_000,
    random_first=True,
    final_epochs=109,
    updates={"tokenizer": 200, "world": 120, "behaviour": 200},
    start_after={"tokenizer": 5, "world": 50, "behaviour": 75},
)
DELTA_CRAFTER = Epochs.Config(
    steps=10_000,
    first_steps=100_000,
    random_first=True,
    final_epochs=9,
    updates={"tokenizer": 500, "world": 500, "behaviour": 500},
    first_updates={"tokenizer": 5_000, "world": 2_500},
)


def blocks(phases: Iterable[Phase]) -> list[tuple[str, int]]:
    """Consecutive phases of the same kind, merged."""
    found: list[tuple[str, int]] = []
    for phase in phases:
        kinds = dict(phase.updates)
        if phase.collect:
            kinds = {"random" if phase.random else "collect": phase.collect, **kinds}
        for kind, count in kinds.items():
            if found and found[-1][0] == kind:
                count += found.pop()[1]
            found.append((kind, count))
    return found


@pytest.mark.parametrize(
    ("config", "total", "num_envs", "epochs", "updates"),
    [
        (IRIS, 100_000, 1, 600, (119_000, 115_000, 110_000)),
        (DELTA_ATARI, 100_000, 1, 600, (119_000, 66_000, 105_000)),
        (DELTA_CRAFTER, 10_000_000, 16, 1000, (504_500, 502_000, 500_000)),
    ],
)
def test_the_updates_of_the_papers(
    config: Epochs.Config, total: int, num_envs: int, epochs: int, updates: tuple[int, ...]
) -> None:
    schedule = config.build(num_envs=num_envs, total=total)
    assert schedule.rounds == epochs
    *_, end = course(schedule.phases(Progress()), num_envs)
    assert tuple(end.updates[name] for name in ("tokenizer", "world", "behaviour")) == updates
    assert end == schedule.goal == Progress(total, end.updates)


def test_the_epochs_of_iris() -> None:
    phases = blocks(IRIS.build(num_envs=1, total=100_000).phases(Progress()))
    turn = {name: (name, 200) for name in ("collect", "tokenizer", "world", "behaviour")}
    expected = [("collect", 200 * 6), turn["tokenizer"]]
    expected += [turn["collect"], turn["tokenizer"]] * 19
    expected += [turn["collect"], turn["tokenizer"], turn["world"]] * 25
    expected += list(turn.values()) * 450
    expected += list(turn.values())[1:] * 100
    assert phases == expected


def test_the_epochs_of_delta_iris_on_crafter() -> None:
    phases = blocks(DELTA_CRAFTER.build(num_envs=16, total=10_000_000).phases(Progress()))
    learned = [(name, 500) for name in ("tokenizer", "world", "behaviour")]
    first = [("random", 6_250), ("tokenizer", 5_000), ("world", 2_500), ("behaviour", 500)]
    assert phases[:12] == [*first, ("collect", 625), *learned, ("collect", 625), *learned]
    assert phases[4:] == [("collect", 625), *learned] * 990 + learned * 9


def test_delta_iris_acts_at_random_in_its_first_epoch_only() -> None:
    phases = blocks(DELTA_ATARI.build(num_envs=1, total=100_000).phases(Progress()))
    assert phases[:3] == [("random", 2_000), ("collect", 1_000), ("tokenizer", 200)]
    assert sum(count for kind, count in phases if kind == "random") == 2_000


@pytest.mark.parametrize("num_envs", [1, 4, 16, 64])
def test_epochs_divide_their_steps_among_environments_without_drift(num_envs: int) -> None:
    schedule = SMALL.build(num_envs=num_envs, total=500)
    ends = [schedule.end(epoch).steps for epoch in range(schedule.rounds + 1)]
    nominal = [0, *range(70, 500, 30), 500, 500, 500]
    assert ends == [-(-steps // num_envs) * num_envs for steps in nominal]


def test_no_phase_is_long() -> None:
    for phase in SMALL.build(num_envs=4, total=500).phases(Progress()):
        assert 1 <= phase.collect + sum(phase.updates.values()) <= 10


def test_the_step_is_interpolated_within_an_epoch_and_goes_on_in_final_epochs() -> None:
    schedule = IRIS.build(num_envs=1, total=100_000)
    assert schedule.step(schedule.end(500)) == 100_000
    assert schedule.step(schedule.end(503)) == 100_600
    assert schedule.step(schedule.goal) == 120_000
    begin = schedule.end(100)
    assert schedule.step(begin) == 20_000
    # 200 steps and 50 updates of an epoch's 800 steps and updates.
    begun = Progress(20_200, {**begin.updates, "tokenizer": begin.updates["tokenizer"] + 50})
    assert schedule.step(begun) == 20_000 + 200 * 250 // 800


@settings(max_examples=60, deadline=None)
@given(
    total=st.integers(1, 400),
    num_envs=st.integers(1, 20),
    steps=st.integers(1, 90),
    first=st.integers(0, 90),
    final=st.integers(0, 3),
    updates=st.integers(0, 25),
    start=st.integers(0, 4),
)
def test_epochs_end_at_their_goal(
    total: int, num_envs: int, steps: int, first: int, final: int, updates: int, start: int
) -> None:
    config = Epochs.Config(
        steps=steps,
        first_steps=first,
        final_epochs=final,
        updates={"world": updates},
        start_after={"world": start},
    )
    schedule = config.build(num_envs=num_envs, total=total)
    *_, end = course(schedule.phases(Progress()), num_envs)
    assert end.steps == schedule.goal.steps == -(-total // num_envs) * num_envs
    assert end.updates.get("world", 0) == schedule.goal.updates["world"]


def test_epochs_keep_the_order_of_learners_in_json() -> None:
    text = json.dumps(to_json(DELTA_CRAFTER))
    assert from_json(json.loads(text)) == DELTA_CRAFTER
    assert list(from_json(json.loads(text)).updates) == ["tokenizer", "world", "behaviour"]


@dataclass(frozen=True)
class Plan:
    schedule: ConfigOf[Schedule]


def test_epochs_are_chosen_by_name() -> None:
    words = ["schedule=epochs", "schedule.steps=50", 'schedule.updates={"world": 3}']
    plan = override(Plan(Interleaved.Config()), words)
    assert plan.schedule == Epochs.Config(steps=50, updates={"world": 3})
    again = override(plan, ["schedule.updates.world=4"])
    assert again.schedule == Epochs.Config(steps=50, updates={"world": 4})


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"first_steps": -1}, {"final_epochs": -1}, {"updates": {"world": -1}}]
)
def test_invalid_epochs(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is invalid"):
        Epochs.Config(**wrong)


def test_start_after_names_a_learner_with_updates() -> None:
    with pytest.raises(UserError, match=r"unknown learner of the epochs 'wrold'.*'world'"):
        Epochs.Config(updates={"world": 3}, start_after={"wrold": 2})
