"""`tokenworlds resume RUN --steps N`: a longer run, equal to one that was made at once."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import STEPS, newest_checkpoint, sentence, stop_run, train

from tokenworlds.cli import main
from tokenworlds.evaluation.comparison.listing import list_run
from tokenworlds.runs.folder import RunFolder
from tokenworlds.training.extension import extend_run

pytestmark = pytest.mark.usefixtures("_no_report")
RUN = Path("run")


def contents(run: Path) -> dict[str, bytes]:
    """All that a run computes; run.json tells how it was made, and manifests hash it."""
    newest = newest_checkpoint(run)
    found = [*newest.iterdir(), *(run / "replay").rglob("*"), run / "metrics.jsonl"]
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in found
        if path.is_file() and path.name not in ("run.json", "manifest.json")
    }


def played(run: Path) -> dict[str, Any]:
    document = json.loads((run / "evaluation.json").read_text())
    return {name: document[name] for name in document if name not in ("checkpoint", "checksum")}


# 24 and 48: evaluations are due where the shorter run ends; 10: within the warm-up.
@pytest.mark.parametrize("steps", [10, 40, 48])
def test_an_extended_run_equals_one_that_was_made_at_once(steps: int, finished: Path) -> None:
    assert main(train(RUN, steps=steps)) == 0
    assert main(["resume", "run", "--steps", str(STEPS)]) == 0
    assert contents(RUN) == contents(finished)
    assert played(RUN) == played(finished)


def test_a_stopped_run_can_be_extended_before_it_ends(finished: Path) -> None:
    stop_run(RUN, 24, "steps=48")
    assert main(["resume", "run", "--steps", str(STEPS)]) == 0
    assert contents(RUN) == contents(finished)


def test_a_run_that_was_killed_after_its_extension_goes_on(finished: Path) -> None:
    assert main(train(RUN, steps=32)) == 0
    folder = RunFolder.open(RUN)
    extend_run(folder, folder.spec(), STEPS)
    assert main(["resume", "run"]) == 0
    assert contents(RUN) == contents(finished)


def test_a_run_can_be_extended_twice(finished: Path) -> None:
    assert main(train(RUN, steps=24)) == 0
    assert main(["resume", "run", "--steps", "48"]) == 0
    assert main(["resume", "run", "--steps", str(STEPS)]) == 0
    assert contents(RUN) == contents(finished)


def test_the_record_names_each_change_and_keeps_the_earlier_result() -> None:
    assert main(train(RUN, steps=24)) == 0
    before = (RUN / "evaluation.json").read_bytes()
    assert main(["resume", "run", "--steps", "32"]) == 0
    document = json.loads((RUN / "run.json").read_text())
    assert document["run"]["recipe"]["steps"] == 32
    assert "--steps 24" in document["command"]
    (entry,) = document["history"]
    assert entry["command"] == "tokenworlds resume --steps 32"
    assert entry["agent_steps"] == entry["run"]["recipe"]["steps"] == 24
    (kept,) = (RUN / "evaluations").iterdir()
    assert kept.read_bytes() == before
    listed = list_run(RUN)
    assert (listed.state, listed.step) == ("finished", 32)


def test_the_steps_that_a_run_has_already_are_no_extension() -> None:
    assert main(train(RUN, steps=24)) == 0
    before = (RUN / "run.json").read_bytes()
    assert main(["resume", "run", "--steps", "24"]) == 0
    assert (RUN / "run.json").read_bytes() == before


def test_a_run_is_not_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(train(RUN, steps=24)) == 0
    capsys.readouterr()
    assert main(["resume", "run", "--steps", "16"]) == 2
    assert sentence(capsys.readouterr().err) == "run has 24 steps: extend it to more, not 16"


def test_a_forged_history_is_no_way_to_other_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(train(RUN, steps=24)) == 0
    document = json.loads((RUN / "run.json").read_text())
    document["run"]["seed"] = 5
    document["history"] = [{"run": {"seed": 0}}, "nonsense"]
    (RUN / "run.json").write_text(json.dumps(document))
    capsys.readouterr()
    assert main(["resume", "run"]) == 2
    assert "was changed after the run began" in sentence(capsys.readouterr().err)


def test_another_number_of_threads_is_recorded_and_noted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(train(RUN, steps=16)) == 0
    # The run is trained: nothing is left to compute with other threads.
    assert main(["resume", "run", "--threads", "2"]) == 0
    assert "does not repeat an uninterrupted run: other threads" in capsys.readouterr().err
    document = json.loads((RUN / "run.json").read_text())
    assert document["run"]["threads"] == 2
    assert document["history"][0]["run"]["threads"] == 1


def test_a_run_can_be_moved_and_copied(finished: Path) -> None:
    stop_run(RUN, 24)
    shutil.copytree(RUN, "copy")
    RUN.rename("moved")
    for name in ("moved", "copy"):
        assert main(["resume", name]) == 0
        assert main(["evaluate", name, "--episodes", "1"]) == 0
        assert contents(Path(name)) == contents(finished)
