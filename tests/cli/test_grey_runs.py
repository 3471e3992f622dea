"""A run on grey frames up to its report, and the temperatures it acts at."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tiny_runs import train

from tokenworlds.agent import Agent
from tokenworlds.cli import main
from tokenworlds.runs.folder import RunFolder

GREY = ("grey=true", "collection.temperature=1.5", "evaluation.temperature=0.75")


@pytest.fixture
def temperatures(monkeypatch: pytest.MonkeyPatch) -> dict[bool, set[float]]:
    """Temperatures an agent acts at, in evaluation and collection."""
    asked: dict[bool, set[float]] = {True: set(), False: set()}
    act = Agent.act

    def listen(agent: Agent, frame: Any, first: Any, carry: Any, *rest: Any) -> Any:
        assert frame.shape[-1] == 1
        asked[len(frame) == 2].add(rest[1] if len(rest) > 1 else 1.0)
        return act(agent, frame, first, carry, *rest)

    monkeypatch.setattr(Agent, "act", listen)
    return asked


def test_a_run_on_grey_frames_is_trained_evaluated_and_reported(
    temperatures: dict[bool, set[float]], capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path("run")
    assert main(train(run, *GREY, "evaluation.episodes=3", steps=32)) == 0
    assert temperatures[True] >= {1.5}
    assert temperatures[False] == {1.0, 0.75}
    described = json.loads((run / "run.json").read_text())["run"]
    assert described["env"]["grey"] is described["recipe"]["grey"] is True
    assert sum(path.stat().st_size for path in run.rglob("frames-*")) == 32 * 16 * 16
    assert main(["dream", str(run), "--horizon", "3"]) == 0
    assert main(["evaluate", str(run), "--episodes", "3"]) == 0
    for name in ("dream.png", "dream.webp", "curve.png"):
        with Image.open(run / name) as picture:
            assert picture.width > 16
    assert "<html" in (run / "report.html").read_text()
    assert_shown(capsys)


def assert_shown(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["show", "step-vq-m", "--env", "catch", "--json", "--set", "grey=true"]) == 0
    assert json.loads(capsys.readouterr().out)["frame"][2] == 1


def test_frames_are_in_colour_by_default(finished: Path) -> None:
    document = json.loads((finished / "run.json").read_text())
    for part in (document["run"]["recipe"], document["run"]["env"]):
        assert part.pop("grey") is False
    Path("run").mkdir()
    Path("run/run.json").write_text(json.dumps(document))
    spec = RunFolder.open(Path("run")).spec()
    assert not spec.env.grey
    assert not spec.recipe.grey
