"""The commands on valid input."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import STEPS, TINY, final_weights, stop_run, train

from tokenworlds.cli import main
from tokenworlds.evaluation.results import read_result
from tokenworlds.recipes import catalogue
from tokenworlds.recipes.listing import entries
from tokenworlds.runs.events import read_metrics

PNG = b"\x89PNG\r\n\x1a\n"


def test_training_ends_with_a_score_a_folder_and_pictures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["train", "--steps", str(STEPS), "--threads", "1"]
    assert main([*words, "--set", *TINY]) == 0
    out, run = capsys.readouterr().out, Path("runs/step-vq-m-catch-s0")
    result = read_result(run / "evaluation.json")
    assert result is not None
    assert (result.agent_steps, len(result.returns), len(result.random_returns)) == (STEPS, 3, 3)
    assert f"score   {result.score}" in out
    assert f"random policy: {result.random_score}\n" in out
    assert "% of the best possible 1" in out
    assert f"folder  {run}\n" in out
    assert f"curve   {run}/curve.png\n" in out
    assert (run / "curve.png").read_bytes().startswith(PNG)
    assert (run / "dream.png").read_bytes().startswith(PNG)
    assert "<html" in (run / "report.html").read_text()
    assert_resuming_a_finished_run_only_prints(run, capsys)


def assert_resuming_a_finished_run_only_prints(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert main(["resume", str(run)]) == 0
    out = capsys.readouterr().out
    assert f"All {STEPS} steps of this run are done." in out
    assert f"curve   {run}/curve.png" in out
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    (run / "curve.png").unlink()
    assert main(["resume", str(run)]) == 0
    assert (run / "curve.png").read_bytes().startswith(PNG)


def test_metrics_count_in_every_unit(finished: Path) -> None:
    events = read_metrics(finished)[0]
    last = events[-1]
    updates = (STEPS - 16) // 4
    assert last["agent_steps"] == STEPS
    assert last["env_frames"] == STEPS
    assert last["gradient_steps"] == 2 * updates
    assert last["imagined_steps"] == updates * 4 * 2
    evaluations = [e["agent_steps"] for e in events if "evaluation/return" in e]
    assert evaluations == [24, 48]


@pytest.mark.usefixtures("_no_report")
def test_the_default_folder_gets_a_number_if_it_is_taken() -> None:
    Path("runs/step-vq-m-catch-s0").mkdir(parents=True)
    Path("runs/step-vq-m-catch-s0-2").mkdir()
    assert main(["train", "--steps", "4", "--threads", "1", "--set", *TINY]) == 0
    assert Path("runs/step-vq-m-catch-s0-3/run.json").exists()


@pytest.mark.usefixtures("_no_report")
def test_a_run_shorter_than_the_warm_up_takes_no_extra_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(train(Path("run"), steps=4)) == 0
    assert sorted(path.name for path in Path("run/checkpoints").iterdir())[-1] == "step-000000004"


@pytest.mark.usefixtures("_no_report")
def test_assignments_may_be_given_together_or_apart() -> None:
    words = ["train", "cb-m", "--run", "run", "--steps", "4", "--set", "num_envs=2"]
    assert main([*words, "--set", "evaluation.final_episodes=1", "schedule.warm_up=2"]) == 0
    recipe = json.loads(Path("run/run.json").read_text())["run"]["recipe"]
    assert (recipe["steps"], recipe["num_envs"], recipe["schedule"]["warm_up"]) == (4, 2, 2)
    assert recipe["evaluation"]["final_episodes"] == 1


def test_evaluating_again_gives_the_same_numbers(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (finished / "evaluation.json").read_text()
    assert main(["evaluate", str(finished), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(before)
    assert main(["evaluate", str(finished), "--episodes", "20", "--seed", "5"]) == 0
    assert "over 20 episodes of toy:catch, protocol toy" in capsys.readouterr().out
    assert (finished / "evaluation.json").read_text() == before
    (written,) = (finished / "evaluations").iterdir()
    document = json.loads(written.read_text())
    assert (document["seed"], len(document["returns"])) == (5, 20)
    assert written.name == "step-64-toy-s5-20-episodes.json"
    shutil.rmtree(finished / "evaluations")


@pytest.mark.usefixtures("_no_report")
def test_a_users_recipe_trains_and_resumes_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_agents.py").write_text(
        "from tokenworlds.core.overrides import override\n"
        "from tokenworlds.recipes.catalogue import load\n"
        "def mine():\n"
        f"    return override(load('step-vq-m', 'nano').recipe, {TINY!r})\n"
    )
    stop_run(Path("run"), 24)
    words = ["train", "my_agents.py:mine", "--steps", str(STEPS), "--threads", "1"]
    assert main([*words, "--run", "own"]) == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert main(["evaluate", str(tmp_path / "own"), "--episodes", "1"]) == 0
    assert final_weights(tmp_path / "own") == final_weights(tmp_path / "run")


NUMBERS = {
    "step-vq-m": 2_175_616,
    "cb-m": 8_919_552,
    "step-vq-m-96": 4_802_176,
    "cb-m-96": 19_410_432,
}


@pytest.mark.parametrize(("recipe", "discretisation"), NUMBERS.items())
def test_show_counts_the_discretisation_path(
    recipe: str, discretisation: int, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ale_py")
    words = ["show", recipe, "--size", "paper", "--env", "atari:Pong", "--json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["actions"] == {"size": 6, "kind": "discrete"}
    assert document["parameters"].pop("discretisation") == discretisation
    assert_totals_add_up(document["parameters"])


def assert_totals_add_up(tree: dict[str, Any]) -> None:
    parts = {name: part for name, part in tree.items() if name != "total"}
    counts = [part["total"] if isinstance(part, dict) else part for part in parts.values()]
    assert sum(counts) == tree["total"]
    for part in parts.values():
        if isinstance(part, dict):
            assert_totals_add_up(part)


def test_show_lists_settings_that_set_accepts(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["show", "step-vq-m", "--size", "nano", "--env", "catch"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    _, _, recipe = shown.partition("\nrecipe\n")
    assignments = [line.strip() for line in recipe.splitlines()]
    assert "sampler=dynamic_frequency" in assignments
    assert main([*words, "--set", *assignments]) == 0
    assert capsys.readouterr().out == shown


def test_agents_lists_all_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    sizes = {name: recipe.size_names for name, recipe in catalogue.RECIPES.items()}
    assert {agent["name"]: agent["sizes"] for agent in listed} == sizes
    for entry in entries():
        assert (
            entry.about == (catalogue.RECIPES[entry.name].function.__doc__ or "").partition("\n")[0]
        )


def test_agents_lists_the_sizes_of_each_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents"]) == 0
    lines = capsys.readouterr().out.splitlines()
    sizes = ", ".join(catalogue.RECIPES["dreamer-v3"].size_names)
    assert "400m" in sizes
    row = next(index for index, line in enumerate(lines) if line.startswith("  dreamer-v3 "))
    assert lines[row + 1] == f"  sizes: {sizes}"


def test_envs_shows_missing_extras(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    assert main(["envs", "--json"]) == 0
    families = {family["name"]: family for family in json.loads(capsys.readouterr().out)}
    assert families["toy"]["installed"]
    assert not families["atari"]["installed"]
    assert next(iter(families["atari"]["protocols"])) == "atari100k"
    assert main(["envs"]) == 0
    assert "pip install 'tokenworlds[atari]'" in capsys.readouterr().out


def test_doctor_passes_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["fit"]
    found = {finding["name"]: finding for finding in document["findings"]}
    assert found["training"]["text"] == "2 updates of the world, 2 updates of the behaviour"
    assert {"python", "torch", "device", "precision", "bfloat16", "disk"} <= found.keys()


def test_doctor_reports_what_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> str:
        raise RuntimeError("no tensors today")

    monkeypatch.setattr("tokenworlds.commands.diagnosis.train_tiny", fail)
    assert main(["doctor"]) == 1
    assert "!!  training           RuntimeError: no tensors today" in capsys.readouterr().out


def test_help_and_lists_do_not_wait_for_torch() -> None:
    code = "import sys; from tokenworlds.cli import main; main(['agents'])"
    asked = f"{code}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.stdout.endswith("False\n")


def test_the_package_runs_as_a_module_and_prints_its_version() -> None:
    words = [sys.executable, "-m", "tokenworlds", "--version"]
    assert subprocess.run(words, capture_output=True, text=True).stdout.startswith("tokenworlds 0.")


def test_help_exits_with_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["train", "--help"]):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert not end.value.code
    assert "--set" in capsys.readouterr().out


def test_a_closed_pipe_is_not_an_error() -> None:
    words = f"{sys.executable} -m tokenworlds agents | head -n 1"
    done = subprocess.run(words, shell=True, capture_output=True, text=True)
    assert done.stdout.startswith("Δ-IRIS")
    assert done.stderr == ""
