"""Achievements of training episodes are counted, exactly and through interruptions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import stop_run, train

from tokenworlds.cli import main
from tokenworlds.core.types import EnvStep
from tokenworlds.envs.game import Game
from tokenworlds.evaluation.results import read_result
from tokenworlds.runs.events import read_metrics

pytestmark = pytest.mark.usefixtures("_no_report")


@pytest.fixture(autouse=True)
def _achievements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Games that count one achievement, catching the ball, and one that nobody reaches."""
    limited = Game._limited

    def counting(game: Game, step: EnvStep) -> EnvStep:
        step = limited(game, step)
        counts: dict[str, Any] = {
            "achievement/catch": float(step.reward > 0),
            "achievement/fly": 0.0,
        }
        return replace(step, info=counts) if step.over else step

    monkeypatch.setattr(Game, "_limited", counting)


def test_training_episodes_and_their_achievements_are_counted() -> None:
    assert main(train(Path("run"))) == 0
    result = read_result(Path("run/evaluation.json"))
    assert result is not None
    training = result.training
    assert training is not None
    # Two environments with games of seven steps, 32 steps each.
    assert training.episodes == 8
    caught = training.unlocked["catch"]
    assert training.total_return == caught - (8 - caught)
    assert training.unlocked["fly"] == 0
    events, _ = read_metrics(Path("run"))
    logged = [event for event in events if "collect/episodes" in event]
    assert [event["collect/episodes"] for event in logged] == [0, 2, 2, 4, 4, 6, 8, 8]
    assert logged[-1]["collect/unlocked/catch"] == caught


def test_the_counts_of_a_run_that_was_stopped_are_the_same() -> None:
    assert main(train(Path("whole"))) == 0
    stop_run(Path("run"), 40)
    assert main(["resume", "run"]) == 0
    for name in ("metrics.jsonl", "evaluation.json"):
        assert Path("run", name).read_bytes() == Path("whole", name).read_bytes()
