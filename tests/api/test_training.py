"""Training from Python, and what a run tells afterwards."""

import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from api_runs import STEPS, TINY, run_without_report

import tokenworlds as tw
from tokenworlds.training import session

pytest_plugins = ("api_fixtures",)


def test_a_run_knows_its_metrics_and_scores(run: tw.Run) -> None:
    assert isinstance(run.metrics, pandas.DataFrame)
    assert run.metrics["agent_steps"].tolist() == [16, 32, 48]
    assert run.metrics["world/loss/total"].notna().any()
    assert len(run.returns) == 3
    assert run.score is not None
    assert run.score.mean == pytest.approx(sum(run.returns) / 3)
    assert run.finished
    assert "step-vq-m (nano) on toy:catch" in repr(run)


def test_without_pandas_metrics_are_dicts(run: tw.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert [event["agent_steps"] for event in run.metrics] == [16, 32, 48]


def test_a_run_is_opened_from_its_folder(run: tw.Run) -> None:
    opened = tw.Run.open(run.folder)
    assert opened.returns == run.returns
    assert opened.agent().steps == STEPS


def test_callbacks_are_told_and_settings_are_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[Any] = []
    settings = {**TINY, "world.memory": 2}
    run = run_without_report(
        tmp_path / "run", seed=3, overrides=settings, on_event=events.append, progress=True
    )
    logged = [event for event in events if event.kind == "log"]
    assert [event.values["agent_steps"] for event in logged] == [16, 32, 48]
    assert "step 48/48" in capsys.readouterr().out
    assert run.spec.seed == 3
    assert run.spec.recipe.world.memory == 2  # type: ignore[attr-defined]


def test_an_extended_run_equals_one_made_at_once(
    run: tw.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shorter = run_without_report(tmp_path / "run", steps=32)
    assert shorter.finished
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(session, "add_report", lambda *run: run[-1])
        longer = shorter.resume(steps=STEPS, progress=False)
    assert capsys.readouterr().out == ""
    assert longer.finished
    assert longer.returns == run.returns
    assert longer.metrics.equals(run.metrics)


def test_a_run_begins_with_the_weights_of_another_or_is_forked(run: tw.Run, tmp_path: Path) -> None:
    frames = np.zeros((16, 16, 3), np.uint8)
    begun = run_without_report(tmp_path / "begun", init=run, seed=1)
    first = begun.agent(checkpoint=0).imagine(frames, [0, 1, 2], seed=0)
    assert np.array_equal(first.frames, run.agent().imagine(frames, [0, 1, 2], seed=0).frames)
    forked = run_without_report(
        tmp_path / "forked", fork=run, steps=64, overrides={"learning.behaviour.batch": 2}
    )
    assert forked.metrics["agent_steps"].max() == 64
    assert forked.metrics[:3].equals(run.metrics)


def test_ctrl_c_saves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    def stop(event: Any) -> None:
        if event.kind == "log":
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="resume"):
        run_without_report(tmp_path / "run", on_event=stop)
    stopped = tw.Run.open(tmp_path / "run")
    assert not stopped.finished
    assert stopped.score is None
    assert stopped.returns == ()
    assert stopped.agent().steps == 16


def test_wrong_names_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(tw.UserError, match="did you mean 'step-vq-m'"):
        tw.train("step-vqm", run=tmp_path / "run")
    with pytest.raises(tw.UserError, match="unknown environment"):
        tw.train(env="cach", run=tmp_path / "run")
    with pytest.raises(tw.UserError, match=r"unknown option of train 'thread': .*mean 'threads'"):
        tw.train(thread=1, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_every_public_name_exists() -> None:
    assert sorted(tw.__all__) == sorted(tw.MODULES)
    assert all(getattr(tw, name) for name in tw.__all__)
    assert set(tw.__all__) <= set(dir(tw))
    with pytest.raises(AttributeError):
        tw.nothing  # noqa: B018
