"""Callbacks of a run: they hear what happens, and cannot damage it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import TINY, newest_checkpoint

from tokenworlds.core.overrides import override
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.events import read_metrics
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training import session
from tokenworlds.training.callbacks import Callback, CallbackFailed, Event

pytestmark = pytest.mark.usefixtures("_no_report")


class Silent:
    def event(self, event: Mapping[str, Any]) -> None: ...

    def progress(
        self, steps: int, rates: Mapping[str, float], seconds_left: float | None, share: float
    ) -> None: ...

    def note(self, text: str) -> None: ...


@pytest.fixture(scope="module")
def spec() -> RunSpec:
    recipe = override(load("step-vq-m", "nano", "catch").recipe, [*TINY, "steps=48"])
    env = EnvSpec("catch", size=recipe.resolution)
    return RunSpec(recipe_name="step-vq-m", size="nano", recipe=recipe, env=env, seed=0, threads=1)


def start(spec: RunSpec, folder: Path, *on_event: Callback) -> None:
    session.start(spec, RunFolder(folder), Silent(), lambda: False, on_event=on_event)


def resume(folder: Path, *on_event: Callback) -> None:
    run = RunFolder.open(folder)
    session.resume(run.spec(), run, Silent(), lambda: False, on_event=on_event)


def failing_at(steps: int) -> Callable[[Event], None]:
    def fail(event: Event) -> None:
        if event.kind == "log" and event.agent_steps == steps:
            raise ZeroDivisionError("no connection")

    return fail


def test_callbacks_hear_all_that_happens_and_a_failing_one_damages_nothing(
    spec: RunSpec, tmp_path: Path
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    events: list[Event] = []
    start(spec, whole, events.append)
    with pytest.raises(CallbackFailed, match=r"fail failed at step 40 \(log\): ZeroDivisionError"):
        start(spec, broken, failing_at(40))
    resumed: list[Event] = []
    resume(broken, resumed.append)
    assert {path.name: path.read_bytes() for path in newest_checkpoint(broken).iterdir()} == {
        path.name: path.read_bytes() for path in newest_checkpoint(whole).iterdir()
    }
    assert (broken / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
    assert [event.values for event in events if event.values][:-1] == read_metrics(whole)[0]
    assert [event.kind for event in events if event.kind != "log"] == [
        *("start", "checkpoint", "checkpoint", "best", "evaluation"),
        *("checkpoint", "checkpoint", "end"),
    ]
    assert events[-1].reason == "finished"
    assert events[-1].values["final/episodes"] == 3
    assert (resumed[0].kind, resumed[0].resumed, resumed[0].agent_steps) == ("start", True, 40)
