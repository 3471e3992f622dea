"""A run in iterations is evaluated after each, and ends the same wherever it is stopped."""

from pathlib import Path

import pytest
from stopped_runs import RecordingScreen, newest, run

from tokenworlds.core.overrides import override
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.recipe import Recipe, build_schedule

TINY = (
    "resolution=16",
    "grey=true",
    "steps=56",
    "num_envs=2",
    "world.tokenizer.width=8",
    "world.tokenizer.codes=8",
    "world.tokenizer.code_width=8",
    "world.sequence.width=16",
    "world.sequence.layers=1",
    "world.sequence.heads=2",
    "behaviour.recurrent=8",
    "behaviour.horizon=2",
    "learning.tokenizer.batch=4",
    "learning.tokenizer.optimiser.early_rate=1e-3",
    "learning.tokenizer.optimiser.early_updates=4",
    "learning.tokenizer.optimiser.clip=null",
    "learning.world.batch=2",
    "learning.world.length=4",
    "learning.behaviour.batch=2",
    "learning.behaviour.length=2",
    "sampler.count_after=24",
    "evaluation.every=16",
    "evaluation.episodes=2",
    "housekeeping.log_every=2",
    "housekeeping.save_every=6",
    "schedule=iterations",
    "schedule.steps=16",
    "schedule.first_steps=24",
    "schedule.warm_up_updates=4",
    "schedule.epochs=[2,1]",
    "schedule.sequences=2",
    "schedule.length=4",
    "schedule.intervals=[2,3]",
    "schedule.batches=[2,1]",
)


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return override(load("iris", "nano").recipe, TINY)


@pytest.fixture(scope="module")
def straight(
    tmp_path_factory: pytest.TempPathFactory, recipe: Recipe
) -> tuple[Path, RecordingScreen]:
    folder = tmp_path_factory.mktemp("runs") / "straight"
    return folder, run(folder, recipe, 1_000)


def test_a_run_stopped_in_any_phase_ends_with_the_same_bits(
    tmp_path: Path, recipe: Recipe, straight: tuple[Path, RecordingScreen]
) -> None:
    run(tmp_path / "stopped", recipe, 3)
    assert newest(tmp_path / "stopped") == newest(straight[0])
    assert newest(straight[0])[0] == "step-000000048"
    metrics = [(path / "metrics.jsonl").read_text() for path in (straight[0], tmp_path / "stopped")]
    assert metrics[0] == metrics[1]


def test_the_agent_is_evaluated_after_each_iteration_and_at_no_other_time(
    recipe: Recipe, straight: tuple[Path, RecordingScreen]
) -> None:
    events, schedule = straight[1].events, build_schedule(recipe)
    evaluated = [event["gradient_steps"] for event in events if "evaluation/return" in event]
    # The final evaluation after the last iteration is not part of the loop.
    assert evaluated == [schedule.end(done).update_count for done in (1, 2)]  # type: ignore[attr-defined]


def test_a_run_logs_within_an_iteration(straight: tuple[Path, RecordingScreen]) -> None:
    events = [event for event in straight[1].events if event["agent_steps"] == 24]
    assert len({event["gradient_steps"] for event in events}) > 3
