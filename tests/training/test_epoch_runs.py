"""A run in epochs ends the same wherever it is stopped, final epochs included."""

from pathlib import Path

import pytest
from stopped_runs import RecordingScreen, newest, run

from tokenworlds.agent import Agent
from tokenworlds.core.errors import UserError
from tokenworlds.core.overrides import override
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.dry_run import check_learners, check_segments, check_shifts

TINY = (
    "resolution=16",
    "steps=48",
    "num_envs=2",
    "world.tokenizer.filters=[8,8,8]",
    "world.tokenizer.strides=[2,2,2]",
    "world.tokenizer.groups=4",
    "world.sequence.width=16",
    "world.sequence.layers=1",
    "world.sequence.heads=2",
    "world.reward.hidden=[16]",
    "world.termination.hidden=[16]",
    "behaviour.actor=[16]",
    "behaviour.critic=[16]",
    "behaviour.horizon=2",
    "learning.world.batch=2",
    "learning.world.length=4",
    "learning.behaviour.batch=4",
    "learning.behaviour.length=2",
    "evaluation.every=24",
    "evaluation.episodes=2",
    "housekeeping.log_every=6",
    "housekeeping.save_every=6",
    "collection.random_share=0.1",
    "sampler=episode_counts",
    "sampler.count_after=24",
    "schedule=epochs",
    "schedule.steps=8",
    "schedule.first_steps=24",
    "schedule.random_first=true",
    "schedule.final_epochs=2",
    'schedule.updates={"world":12,"behaviour":3}',
    'schedule.start_after={"behaviour":1}',
)


def recipe(*more: str) -> Recipe:
    return override(load("step-vq-m", "nano").recipe, [*TINY, *more])


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RecordingScreen]:
    folder = tmp_path_factory.mktemp("runs") / "straight"
    return folder, run(folder, recipe(), 1_000)


def test_a_run_stopped_in_any_phase_ends_with_the_same_bits(
    tmp_path: Path, straight: tuple[Path, RecordingScreen]
) -> None:
    run(tmp_path / "stopped", recipe(), 3)
    assert newest(tmp_path / "stopped") == newest(straight[0])
    # Four epochs with 48 steps, and two final ones that count 8 each.
    assert newest(straight[0])[0] == "step-000000064"
    metrics = [(path / "metrics.jsonl").read_text() for path in (straight[0], tmp_path / "stopped")]
    assert metrics[0] == metrics[1]


def test_a_run_logs_in_final_epochs_too(straight: tuple[Path, RecordingScreen]) -> None:
    screen = straight[1]
    tail = [event for event in screen.events if event["agent_steps"] == 48]
    learned = [event["gradient_steps"] for event in tail if "world/loss/total" in event]
    assert len(learned) > 2
    assert learned == sorted(set(learned))
    evaluated = [event["gradient_steps"] for event in screen.events if "evaluation/return" in event]
    assert evaluated == [12, 12 + 3 * 15]  # At steps 24 and 48 of the run.


def test_the_time_left_is_known_once_all_kinds_of_work_were_measured(
    straight: tuple[Path, RecordingScreen],
) -> None:
    screen = straight[1]
    assert screen.shares == sorted(screen.shares)
    assert screen.shares[-1] == 1.0
    assert screen.left[0] is None
    known = [left for left in screen.left if left is not None]
    assert 0 < known[-2] < known[0]


def test_segments_must_fit_the_first_epoch_of_their_learner() -> None:
    check_segments(recipe("learning.world.length=12"))
    with pytest.raises(UserError, match=r"world\.length=13 .* holds 12 steps; raise schedule\.fir"):
        check_segments(recipe("learning.world.length=13"))
    # The behaviour starts in the second epoch.
    check_segments(recipe("learning.behaviour.length=16"))
    with pytest.raises(UserError, match=r"behaviour\.length=17 does not fit"):
        check_segments(recipe("learning.behaviour.length=17"))


def check(recipe: Recipe) -> None:
    check_learners(Agent.build(recipe, FrameShape(16, 16), ActionSpace(3)), recipe)


def test_a_schedule_names_exactly_the_learners() -> None:
    check(recipe('schedule.updates={"world":1,"behaviour":0}'))
    with pytest.raises(UserError, match="no updates of the learner 'world'"):
        check(recipe('schedule.updates={"behaviour":0}'))
    with pytest.raises(UserError, match="unknown learner in the schedule 'wrold'"):
        check(recipe('schedule.updates={"wrold":1,"behaviour":0}'))


def test_cached_tokens_are_those_of_frames_that_are_not_shifted() -> None:
    def check(*choices: str) -> None:
        chosen = override(load("iris", "nano").recipe, choices)
        check_shifts(Agent.build(chosen, FrameShape(32, 32), ActionSpace(3)), chosen)

    check("learning.tokenizer.shift=4")
    with pytest.raises(UserError, match=r"world\.shift=4 .*: use 0, or set .*tokenizer\.shift"):
        check("learning.world.shift=4")
    with pytest.raises(UserError, match="shift takes 0 or more pixels, not -1"):
        check("learning.tokenizer.shift=-1")
    with pytest.raises(UserError, match="shift_step takes 1 or more pixels, not 0"):
        check("learning.tokenizer.shift_step=0")
