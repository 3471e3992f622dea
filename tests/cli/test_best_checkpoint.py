"""The agent of the best evaluation is kept beside the last checkpoints."""

import json
import shutil
from pathlib import Path

import pytest
from tiny_runs import newest_checkpoint, sentence, stop_run, train

from tokenworlds.agent import Agent
from tokenworlds.cli import main
from tokenworlds.core.errors import UserError
from tokenworlds.evaluation.episodes import Episode
from tokenworlds.runs import checkpoint as checkpoints
from tokenworlds.training.loop import Loop

pytestmark = pytest.mark.usefixtures("_no_report")


def kept(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").glob("*-*"))


def contents(run: Path) -> dict[str, bytes]:
    """The files of the best and the last checkpoint."""
    found = [*(run / "checkpoints").glob("best-*/*"), *newest_checkpoint(run).iterdir()]
    return {str(path.relative_to(run)): path.read_bytes() for path in found}


def scores(monkeypatch: pytest.MonkeyPatch, *returns: float) -> None:
    """Let the evaluations of a run return these, one after the other."""
    coming = iter(returns)
    monkeypatch.setattr(Loop, "evaluate", lambda *given: [Episode(0, next(coming), 7, {})])


@pytest.mark.parametrize(
    ("returns", "best"), [((1.0, 3.0, 2.0), 32), ((2.0, 2.0, 1.0), 16), ((-3.0, -2.0, -1.0), 48)]
)
def test_the_checkpoint_of_the_highest_evaluation_is_kept_and_the_earlier_of_equals(
    returns: tuple[float, ...], best: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores(monkeypatch, *returns)
    assert main(train(Path("run"), "evaluation.every=16", "housekeeping.keep=1")) == 0
    assert kept(Path("run")) == [f"best-{best:09d}", "step-000000064"]
    state = checkpoints.read(Path("run/checkpoints", f"best-{best:09d}")).state
    assert (state["steps"], state["best"]) == (best, {"step": best, "return": max(returns)})


@pytest.mark.parametrize("steps", [16, 24, 40, 56])
def test_the_best_and_the_last_checkpoint_are_the_same_wherever_a_run_was_stopped(
    steps: int, finished: Path
) -> None:
    stop_run(Path("run"), steps)
    assert main(["resume", "run"]) == 0
    assert contents(Path("run")) == contents(finished)


def test_the_best_checkpoint_is_evaluated_on_episodes_of_its_own(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished, "run")
    before = Path("run/evaluation.json").read_bytes()
    assert main(["evaluate", "run", "--checkpoint", "best", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    step = int(kept(finished)[0].removeprefix("best-"))
    assert document["agent_steps"] == step
    (written,) = Path("run/evaluations").iterdir()
    assert json.loads(written.read_text()) == document
    assert Path("run/evaluation.json").read_bytes() == before
    assert main(["evaluate", "run", "--checkpoint", str(step), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document


def test_load_takes_the_best_the_last_or_a_step(finished: Path) -> None:
    best, last = kept(finished)[0], newest_checkpoint(finished)
    for which, folder in (("best", best), ("last", last.name), (64, last.name)):
        weights = checkpoints.read(finished / "checkpoints" / folder).tensors["weights"]
        loaded = Agent.load(finished, checkpoint=which).state_dict()
        assert all((loaded[name] == value).all() for name, value in weights.items())


def test_an_unknown_checkpoint_is_an_error_with_those_that_exist(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = sorted({int(name.partition("-")[2]) for name in kept(finished)})
    assert main(["evaluate", str(finished), "--checkpoint", "7"]) == 2
    assert sentence(capsys.readouterr().err) == (
        f"{finished} has no checkpoint '7': choose from last, best, {', '.join(map(str, steps))}"
    )


def test_a_run_without_evaluations_has_no_best_checkpoint() -> None:
    assert main(train(Path("run"), "evaluation.every=0", steps=16)) == 0
    with pytest.raises(UserError, match="no best checkpoint: it was not evaluated while it"):
        Agent.load("run", checkpoint="best")


def test_a_best_checkpoint_that_is_damaged_or_missing_is_no_other(finished: Path) -> None:
    shutil.copytree(finished, "run")
    best = Path("run/checkpoints", kept(finished)[0])
    (best / "weights.safetensors").write_bytes(b"torn")
    with pytest.raises(UserError, match=r"weights\.safetensors is damaged"):
        Agent.load("run", checkpoint="best")
    shutil.rmtree(best)
    with pytest.raises(UserError, match=r"has no best checkpoint: step .* is missing"):
        Agent.load("run", checkpoint="best")
    Agent.load("run", strict=True)
