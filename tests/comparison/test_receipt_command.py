"""`tokenworlds receipt`: what a receipt says, and which runs it refuses."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from synthetic_runs import Invented, write_run, write_seeds

from tokenworlds.cli import main
from tokenworlds.core.config import variant
from tokenworlds.core.files import DamagedFile
from tokenworlds.evaluation.receipts.receipt import read_receipt, read_receipts
from tokenworlds.evaluation.results import FILE, read_result, write_result
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.checkpoint import Checkpoint
from tokenworlds.runs.folder import RunFolder

Refused = Callable[..., str]
CATCH = Path("results/toy/step-vq-m--catch--nano-1k.json")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Make a receipt that must be refused; returns the sentence."""

    def run(*words: str) -> str:
        assert main(["receipt", *words]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1, error
        assert not Path("results").exists()
        return error.removeprefix("tokenworlds: ").strip()

    return run


def test_a_receipt_has_the_returns_of_every_seed_and_how_to_get_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = write_seeds(Path("runs"), (1, 0))
    assert main(["receipt", "runs"]) == 0
    assert capsys.readouterr().out.startswith(f"{CATCH}  ")
    receipt = read_receipt(CATCH)
    assert [seed.seed for seed in receipt.seeds] == [0, 1]
    for seed, run in zip(receipt.seeds, sorted(runs), strict=True):
        result = read_result(run / FILE)
        assert result is not None
        assert seed.returns == pytest.approx(result.returns, rel=1e-5)
        assert seed.score.mean == pytest.approx(result.score.mean, rel=1e-5)
        assert seed.random == result.random_score
        assert seed.command.startswith("tokenworlds train step-vq-m --env catch")
        assert seed.curve.steps[-1] == 1000
    assert (receipt.steps, receipt.size, receipt.protocol) == (1000, "nano", "toy")
    assert receipt.references == {"best": 1.0}
    assert receipt.machines[0]["packages"]["torch"]
    assert len(receipt.machines) == 1
    assert receipt.machines[0]["threads"] == 1


def test_the_same_runs_give_the_same_bytes_in_any_order() -> None:
    one, two = write_seeds(Path("runs"), (0, 1))
    assert main(["receipt", str(one), str(two), "--out", "a"]) == 0
    assert main(["receipt", str(two), str(one), str(two), "--out", "b"]) == 0
    assert main(["receipt", str(two), str(one), "--out", "b"]) == 0
    name = CATCH.relative_to("results")
    assert (Path("a") / name).read_bytes() == (Path("b") / name).read_bytes()
    text = (Path("a") / name).read_text()
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert str(Path.cwd()) not in text


def test_agents_and_games_have_receipts_of_their_own() -> None:
    write_seeds(Path("runs"), (0,))
    write_seeds(Path("runs"), (0,), recipe="cb-m")
    write_seeds(Path("runs"), (0,), env="minatar:breakout")
    write_seeds(Path("runs"), (0,), env="minatar:freeway")
    assert main(["receipt", "runs"]) == 0
    found = {r.place: r.tuned_on for r in read_receipts(Path("results"))}
    assert found == {
        "minatar/step-vq-m--breakout--nano-1k.json": True,
        "minatar/step-vq-m--freeway--nano-1k.json": False,
        "toy/cb-m--catch--nano-1k.json": True,
        "toy/step-vq-m--catch--nano-1k.json": True,
    }


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"steps": 2000}, "their agent steps differ (1000 and 2000)"),
        ({"settings": {"num_envs": 3}}, "their settings differ (num_envs)"),
        ({"seed": 0}, "have the same seed, 0"),
    ],
)
def test_runs_that_do_not_belong_together_are_refused(
    refused: Refused, other: dict[str, Any], why: str
) -> None:
    write_run(Path("runs/a"), Invented(seed=0))
    write_run(Path("runs/b"), Invented(**{"seed": 1, **other}))
    assert why in refused("runs")


def test_protocols_are_not_mixed(refused: Refused) -> None:
    write_run(Path("runs/a"), Invented(env="atari:Pong", seed=0))
    write_run(Path("runs/b"), Invented(env="atari:Pong", seed=1, protocol="atari100k-sticky"))
    assert "their protocols differ (atari100k and atari100k-sticky)" in refused("runs")
    assert main(["receipt", "runs/b"]) == 0
    assert Path("results/atari/step-vq-m--Pong--nano-1k--atari100k-sticky.json").exists()


def test_an_unfinished_run_needs_leave_and_says_how_far_it_got(refused: Refused) -> None:
    write_run(Path("runs/a"), Invented(seed=0, reached=600))
    assert refused("runs").startswith("runs/a is not finished (600 of 1,000 agent steps)")
    assert main(["receipt", "runs", "--unfinished"]) == 0
    (seed,) = read_receipt(CATCH).seeds
    assert (seed.finished, seed.steps, seed.returns) == (False, 600, ())
    assert seed.score.episodes == 2
    assert seed.score.mean == pytest.approx(seed.curve.returns[-1])
    assert seed.step == seed.curve.steps[-1] <= 600


def test_missing_runs_are_named(refused: Refused) -> None:
    assert refused().startswith("name the runs to make receipts of")
    assert refused("nowhere") == "'nowhere' is no run and no folder of runs"
    Path("empty").mkdir()
    assert refused("empty") == "'empty' holds no runs"


def test_a_changed_run_is_refused(refused: Refused) -> None:
    write_seeds(Path("runs"), (0,))
    (run,) = Path("runs").iterdir()
    document = json.loads((run / "run.json").read_text())
    document["command"] = "tokenworlds train better"
    (run / "run.json").write_text(json.dumps(document, indent=2) + "\n")
    assert "was changed after the run began" in refused("runs")


def test_an_edited_or_foreign_evaluation_is_refused(refused: Refused) -> None:
    one, two = write_seeds(Path("runs"), (0, 1))
    shutil.copy(two / FILE, one / FILE)
    assert "is the evaluation of another run" in refused("runs")
    text = (two / FILE).read_text()
    (one / FILE).write_text(text.replace('"seed": 1', '"seed": 0'))
    assert "evaluation.json" in refused(str(one))


def test_a_fork_names_the_settings_of_its_parents_too() -> None:
    changed = variant(load("step-vq-m", "nano").recipe, {"behaviour.horizon": 9, "world.memory": 5})
    settings = {"behaviour": changed.behaviour, "world": changed.world}
    write_run(Path("runs/fork"), Invented(parent="runs/other", settings=settings))
    assert main(["receipt", "runs/fork"]) == 0
    (receipt,) = read_receipts(Path("results"))
    assert receipt.changes == ("behaviour.horizon=9", "world.memory=5")


def test_the_evaluation_with_the_most_episodes_counts() -> None:
    (run,) = write_seeds(Path("runs"), (0,))
    final = read_result(run / FILE)
    assert final is not None
    (run / "evaluations").mkdir()
    longer = replace(final, returns=(0.5, 0.25) * 4, random_returns=(0.0,) * 8)
    write_result(run / "evaluations" / "longer.json", longer)
    sampled = replace(longer, returns=(9.0,) * 20, temperature=1.0)
    write_result(run / "evaluations" / "sampled.json", sampled)
    elsewhere = replace(longer, returns=(9.0,) * 20, checkpoint="0" * 64)
    write_result(run / "evaluations" / "of-another-checkpoint.json", elsewhere)
    assert main(["receipt", "runs"]) == 0
    (seed,) = read_receipt(CATCH).seeds
    assert seed.returns == longer.returns
    assert (seed.curve.steps[-1], seed.curve.returns[-1]) == (1000, 0.375)
    assert seed.random is not None
    assert seed.random.episodes == 8


def test_a_selected_checkpoint_has_a_receipt_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    (run,) = write_seeds(Path("runs"), (0,))
    assert main(["receipt", "runs", "--checkpoint", "best"]) == 2
    assert "has no best checkpoint" in capsys.readouterr().err
    folder = RunFolder.open(run)
    folder.lock()
    folder.newest()
    folder.save_best(500, Checkpoint({}, {"step": 500}))
    manifest = folder.chosen("best").checkpoint.manifest
    folder.unlock()
    assert main(["receipt", "runs", "--checkpoint", "best"]) == 2
    assert "evaluate runs/step-vq-m-catch-s0 --checkpoint best" in capsys.readouterr().err
    final = read_result(run / FILE)
    assert final is not None
    (run / "evaluations").mkdir()
    best = replace(final, returns=(2.0, 3.0), agent_steps=500, checkpoint=manifest)
    write_result(run / "evaluations" / "best.json", best)
    assert main(["receipt", "runs", "--checkpoint", "best"]) == 0
    receipt = read_receipt(Path("results/toy/step-vq-m--catch--nano-1k--best.json"))
    assert receipt.agent == "step-vq-m, best checkpoint"
    (seed,) = receipt.seeds
    assert (seed.step, seed.steps, seed.score.mean) == (500, 1000, 2.5)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: d["seeds"][0]["score"].update(mean=9.0), "score of seed 0 is not that of its"),
        (lambda d: d["seeds"][1].update(seed=0), "a seed is there twice"),
        (lambda d: d["seeds"][0].update(steps=10), "trained 10 of 1000 steps"),
        (lambda d: d.update(tuned_on=False), "tuned_on is wrong for toy:catch"),
        (lambda d: d.update(steps="1000"), "steps is"),
        (lambda d: d.pop("machines"), "missing or unknown"),
        (lambda d: d.update(size="<script>"), "is not plain"),
        (lambda d: d["seeds"].clear(), "it has no seeds"),
        (lambda d: d.update(format=0), "it is no receipt of format 1"),
    ],
)
def test_a_receipt_that_was_edited_is_refused(change: Callable[[Any], Any], why: str) -> None:
    write_seeds(Path("runs"), (0, 1))
    assert main(["receipt", "runs"]) == 0
    document = json.loads(CATCH.read_text())
    change(document)
    CATCH.write_text(json.dumps(document))
    with pytest.raises(DamagedFile, match=why):
        read_receipt(CATCH)


def test_seeds_that_are_added_later_join_those_of_a_receipt(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, two = write_seeds(Path("runs"), (0, 1))
    assert main(["receipt", str(one), str(two)]) == 0
    together = CATCH.read_bytes()
    CATCH.unlink()
    assert main(["receipt", str(two)]) == 0
    capsys.readouterr()
    assert main(["receipt", str(one)]) == 0
    assert "(2 seeds)" in capsys.readouterr().out
    assert CATCH.read_bytes() == together


def test_a_seed_of_another_machine_keeps_its_machine() -> None:
    one, two = write_seeds(Path("runs"), (0, 1))
    assert main(["receipt", str(one)]) == 0
    document = json.loads(CATCH.read_text())
    document["machines"][0]["processor"] = "another"
    CATCH.write_text(json.dumps(document))
    assert main(["receipt", str(two)]) == 0
    receipt = read_receipt(CATCH)
    processors = [receipt.machines[seed.machine]["processor"] for seed in receipt.seeds]
    assert processors[0] == "another"
    assert processors[1] != "another"


def test_seeds_with_other_settings_do_not_join_a_receipt(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, two = write_seeds(Path("runs"), (0, 1))
    assert main(["receipt", str(one)]) == 0
    document = json.loads(CATCH.read_text())
    document["settings"] = "0" * 16
    CATCH.write_text(json.dumps(document))
    before = CATCH.read_bytes()
    assert main(["receipt", str(two)]) == 2
    assert "has seed 0, whose settings differ" in capsys.readouterr().err
    assert CATCH.read_bytes() == before
