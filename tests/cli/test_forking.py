"""`train --from RUN` and `train --init RUN`: runs that begin with what another learned."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file
from tiny_runs import newest_checkpoint, sentence, train

from tokenworlds.agent import Agent
from tokenworlds.cli import main

pytestmark = pytest.mark.usefixtures("_no_report")
FORK = Path("fork")
LEARNERS = ("world", "behaviour")


def contents(run: Path) -> dict[str, bytes]:
    """What training computes; run.json tells how the run was made, and manifests hash it."""
    newest, left_out = newest_checkpoint(run), ("run.json", "manifest.json", "state.json")
    found = [*newest.iterdir(), *(run / "replay").rglob("*"), run / "metrics.jsonl"]
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in found
        if path.is_file() and path.name not in left_out
    }


def test_a_fork_without_changes_is_the_run_itself(finished: Path) -> None:
    assert main(train(Path("parent"), steps=40)) == 0
    assert main(["train", "--from", "parent", "--steps", "64", "--run", "fork"]) == 0
    assert contents(FORK) == contents(finished)
    document = json.loads((FORK / "run.json").read_text())
    assert document["command"] == "tokenworlds train --from parent --steps 64"
    assert document["parent"]["folder"] == "parent"
    assert document["parent"]["agent_steps"] == 40
    # The parent is as it was, and the fork does not need it.
    assert newest_checkpoint(Path("parent")).name == "step-000000040"
    Path("parent").rename("moved")
    assert main(["resume", "fork", "--steps", "72"]) == 0


def test_a_fork_has_the_changes_and_keeps_what_was_learned(finished: Path) -> None:
    words = ["train", "--from", str(finished), "--steps", "72", "--run", "fork"]
    assert main([*words, "--set", "learning.world.optimiser.rate=0.5"]) == 0
    run = json.loads((FORK / "run.json").read_text())["run"]
    assert run["recipe"]["learning"]["world"]["optimiser"]["rate"] == 0.5
    # A quarter of an update per step after the warm-up of 16 steps: the count goes on.
    optimiser = load_file(newest_checkpoint(FORK) / "optimiser_world.safetensors")
    assert int(optimiser["updates"]) == (72 - 16) / 4


def test_a_learner_of_a_fork_starts_anew_even_with_another_shape(finished: Path) -> None:
    words = ["train", "--from", str(finished), "--steps", "72", "--run", "fork"]
    words += ["--fresh", "behaviour", "--set", "behaviour.actor=[24]"]
    assert main(words) == 0
    optimisers = [
        load_file(newest_checkpoint(FORK) / f"optimiser_{name}.safetensors") for name in LEARNERS
    ]
    whole, anew = (int(each["updates"]) for each in optimisers)
    # A quarter of an update per step after the warm-up of 16 steps, and only the last of them.
    assert (whole, anew) == ((72 - 16) / 4, (72 - 64) / 4)
    command = json.loads((FORK / "run.json").read_text())["command"]
    assert "--from" in command
    assert "--fresh behaviour" in command
    assert main(["resume", "fork", "--steps", "80"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fresh", "behavior"], "did you mean 'behaviour'?"),
        (["--set", "num_envs=3"], "keeps num_envs=2, on which its replay depends, not 3"),
        (["--steps", "40"], "has 64 steps already: give its fork more with --steps"),
        (["--set", "world.sequence.width=32"], "do not fit: world.sequence"),
        (["--seed", "3"], "--from takes no --seed: a fork keeps that of"),
        (["--env", "steer"], "--from takes no --env: a fork keeps that of"),
        (["cb-m"], "--from takes no recipe"),
    ],
)
def test_a_change_that_does_not_fit_is_refused(
    words: list[str], message: str, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [] if "--steps" in words else ["--steps", "72"]
    assert main(["train", *words, "--from", str(finished), *steps, "--run", "fork"]) == 2
    assert message in sentence(capsys.readouterr().err)
    assert not FORK.exists()


def test_fresh_needs_a_fork(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*train(Path("new"), steps=16), "--fresh", "world"]) == 2
    assert "--fresh needs --from RUN" in sentence(capsys.readouterr().err)


def test_a_run_begins_with_the_weights_of_another(finished: Path) -> None:
    Agent.load(finished).save("saved")
    for name, source in {"a": str(finished), "b": "saved"}.items():
        assert main([*train(Path(name), "steps=16"), "--init", source]) == 0
    before = load_file(newest_checkpoint(finished) / "weights.safetensors")
    for name in ("a", "b"):
        # Sixteen steps are the warm-up: nothing is learned in it.
        after = load_file(newest_checkpoint(Path(name)) / "weights.safetensors")
        assert all(before[key].equal(after[key]) for key in before)
        updates = load_file(newest_checkpoint(Path(name)) / "optimiser_world.safetensors")
        assert int(updates["updates"]) == 0
    assert json.loads(Path("a/run.json").read_text())["init"]["agent_steps"] == 64


def test_weights_of_other_shapes_are_refused(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*train(Path("a"), "world.sequence.width=32"), "--init", str(finished)]) == 2
    found = sentence(capsys.readouterr().err)
    assert found.startswith(f"the weights of {finished} do not fit: world.sequence")
    assert not Path("a").exists()
