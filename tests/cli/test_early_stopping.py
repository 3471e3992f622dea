"""`train --stop-at-return` and `--patience`: the run ends as a finished one, with the reason."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import newest_checkpoint, sentence, signal_at, train

from tokenworlds.cli import main
from tokenworlds.evaluation.comparison.listing import list_run
from tokenworlds.runs.spec import StopRule

pytestmark = pytest.mark.usefixtures("_no_report")
RUN = Path("run")
EVERY = "evaluation.every=8"


def stopping(run: Path, *rule: str) -> list[str]:
    return [*train(run, EVERY), *rule]


def state(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((newest_checkpoint(run) / "state.json").read_text())
    return found


def test_a_run_stops_at_a_return_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    # Catch pays -1 to 1, so the first evaluation reaches -1.
    assert main(stopping(RUN, "--stop-at-return", "-1")) == 0
    out = capsys.readouterr().out
    assert "stopped early at step 8: return" in out
    assert json.loads((RUN / "evaluation.json").read_text())["ended"].endswith("reached -1")
    assert (list_run(RUN).state, list_run(RUN).step) == ("finished", 8)
    assert "--stop-at-return -1.0" in json.loads((RUN / "run.json").read_text())["command"]
    before = newest_checkpoint(RUN)
    assert main(["resume", "run"]) == 0
    assert newest_checkpoint(RUN) == before
    assert "stopped early at step 8: return" in capsys.readouterr().out


def test_a_plateau_is_found_again_after_a_stop() -> None:
    whole, stopped = Path("whole"), Path("stopped")
    assert main(stopping(whole, "--patience", "2")) == 0
    with pytest.MonkeyPatch.context() as monkeypatch:
        signal_at(monkeypatch, 16)
        assert main(stopping(stopped, "--patience", "2")) == 130
    assert main(["resume", "stopped"]) == 0
    assert state(whole)["ended"].startswith("2 evaluations were no better than")
    for name in ("metrics.jsonl", "evaluation.json"):
        assert (stopped / name).read_bytes() == (whole / name).read_bytes()


def test_a_run_that_stopped_early_goes_on_when_it_is_extended(finished: Path) -> None:
    assert main([*train(RUN), "--stop-at-return", "-1"]) == 0
    assert newest_checkpoint(RUN).name == "step-000000024"
    assert main(["resume", "run", "--steps", "64"]) == 0
    assert (list_run(RUN).state, list_run(RUN).step) == ("finished", 64)
    assert (RUN / "metrics.jsonl").read_bytes() == (finished / "metrics.jsonl").read_bytes()


def test_a_rule_without_evaluations_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*train(RUN, "evaluation.every=0"), "--patience", "2"]) == 2
    assert sentence(capsys.readouterr().err).startswith("--patience needs evaluations")


@pytest.mark.parametrize(
    ("rule", "score", "stale", "stops"),
    [
        (StopRule(at_return=0.5), 0.5, 0, True),
        (StopRule(at_return=0.5), 0.4, 9, False),
        (StopRule(patience=3), 0.5, 2, False),
        (StopRule(patience=3), 0.5, 3, True),
        (StopRule(), 9.0, 9, False),
    ],
)
def test_a_rule_looks_at_the_return_and_at_the_evaluations_since_the_best(
    rule: StopRule, score: float, stale: int, stops: bool
) -> None:
    assert bool(rule.verdict(score, 0.6, 100, stale)) == stops


def test_json_is_all_that_train_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*stopping(RUN, "--stop-at-return", "-1"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["folder"], document["agent_steps"]) == ("run", 8)
    assert document["ended"].endswith("reached -1")
    assert len(document["evaluation"]["returns"]) == 3
