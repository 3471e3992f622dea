"""Wrong input gives one sentence and exit code 2, and writes no files."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import sentence, train

from tokenworlds.cli import main

ERRORS = [
    (["trian"], "unknown command 'trian'", "did you mean 'train'?"),
    (["train", "stepvq-m"], "unknown recipe 'stepvq-m'", "did you mean 'step-vq-m'?"),
    (["show", "stepvq-m"], "unknown recipe 'stepvq-m'", "did you mean 'step-vq-m'?"),
    (["train", "--env", "cathc"], "unknown environment 'cathc'", "did you mean 'catch'?"),
    (["train", "--env", "toy:cathc"], "unknown toy 'cathc'", "did you mean 'catch'?"),
    (["train", "--env", "atari:Pnog"], "'Pnog'", "did you mean 'Pong'?"),
    (["train", "--size", "nao"], "unknown size 'nao'", "did you mean 'nano'?"),
    (["train", "--protocol", "toys"], "unknown protocol for catch 'toys'", "'toy'?"),
    (["train", "--device", "cud"], "unknown device 'cud'", "choose from auto, cpu"),
    (["train", "--precision", "float23"], "unknown precision 'float23'", "'float32'?"),
    (
        ["train", "--set", "world.seqence.width=8"],
        "unknown field of world 'seqence'",
        "'sequence'?",
    ),
    (["train", "--set", "num_envs=many"], "num_envs takes a whole number, not 'many'", ""),
    (["train", "--set", "world.sequence=mamba3"], "'mamba3'", "did you mean 'mamba2'?"),
    (["train", "--set", "num_envs"], "'num_envs' is no assignment", "write a.b.c=value"),
    (["train", "--set", "num_envs=0"], "num_envs takes a whole number of 1 or more, not 0", ""),
    (
        ["train", "--set", "learning.world.optimiser.rate=-1"],
        "rate=-1.0 is not allowed: it takes 0 or more",
        "",
    ),
    (["train", "--steps", "0"], "--steps: takes a whole number of 1 or more, not '0'", ""),
    (["train", "--steps", "-5"], "--steps: takes a whole number of 1 or more, not '-5'", ""),
    (["train", "--steps", "many"], "--steps: takes a whole number of 1 or more, not 'many'", ""),
    (["train", "--steps"], "'--steps'", ""),
    (["train", "--seed", "-1"], "--seed: takes a whole number of 0 or more, not '-1'", ""),
    (["train", "--threads", "0"], "--threads: takes a whole number of 1 or more, not '0'", ""),
    (["train", "--stepz", "5"], "--stepz", "did you mean --steps?"),
    (["dream", "run", "--horzon", "5"], "--horzon", "did you mean --horizon?"),
    (["train", "step-vq-m", "catch"], "catch", "tokenworlds train --help"),
    (["train", "my_agents.py:mine"], "'my_agents.py' is no file", ""),
    (["resume"], "RUN", "tokenworlds resume --help"),
    (["resume", "nowhere"], "'nowhere' is not a run folder: there is no such folder", ""),
    (["evaluate", "nowhere"], "'nowhere' is not a run folder: there is no such folder", ""),
    (["dream", "nowhere"], "'nowhere' is not a run folder: there is no such folder", ""),
    (["dream", "nowhere", "--horizon", "0"], "takes a whole number of 1 or more", ""),
    (["evaluate", "nowhere", "--episodes", "0"], "takes a whole number of 1 or more", ""),
    (["evaluate", "nowhere", "--temperature", "-1"], "takes a number of 0 or more, not '-1'", ""),
    (["evaluate", "nowhere", "--temperature", "nan"], "takes a number of 0 or more", "'nan'"),
    (["evaluate", "nowhere", "--temperature", "hot"], "takes a number of 0 or more", "'hot'"),
    (["evaluate", "nowhere", "--processes", "0"], "takes a whole number of 1 or more", ""),
]


@pytest.mark.parametrize(
    ("words", "expected", "hint"), ERRORS, ids=[" ".join(words) for words, _, _ in ERRORS]
)
def test_an_error_names_the_value_and_the_nearest_match(
    words: list[str], expected: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    text = sentence(captured.err)
    assert expected in text
    assert hint in text
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_an_option_of_another_command_is_not_suggested(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["train", "storm", "--out", "file"]) == 2
    text = sentence(capsys.readouterr().err)
    assert "--out" in text
    assert "did you mean" not in text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("world.sequence.heads=3", "heads=3 of Mamba-2 must divide"),
        ("world.tokenizer.strides=[2,2,3]", "the recipe does not fit together"),
        ("world.tokenizer.groups=5", "the recipe does not fit together"),
        ('learning.world.scales={"rewrd":1.0}', "unknown loss term 'rewrd'"),
    ],
)
def test_settings_that_do_not_fit_together_leave_no_run_behind(
    change: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(train(Path("run"), change)) == 2
    assert expected in sentence(capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["train", "--env", "atari:Pong"], ["show", "cb-m", "--env", "atari:Pong"]]
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    assert main(words) == 2
    assert "pip install 'tokenworlds[atari]'" in sentence(capsys.readouterr().err)


def test_a_folder_without_run_json_is_not_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["resume", str(tmp_path)]) == 2
    assert "it has no run.json" in sentence(capsys.readouterr().err)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"run": {}}', '{"run": {"recipe_name": "x"}}'])
def test_an_unreadable_run_json_is_named(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text(content)
    for command in ("resume", "evaluate"):
        assert main([command, str(tmp_path)]) == 2
        assert "run.json" in sentence(capsys.readouterr().err)


OLD_RUN = {
    "type": "tokenworlds.training.spec:RunSpec",
    "recipe_name": "step-vq-m",
    "size": "nano",
    "recipe": {
        "type": "tokenworlds.training.recipe:Recipe",
        "streams": 8,
        "world": {
            "type": "tokenworlds.worlds.latent:Latent.Config",
            "ending": {"type": "tokenworlds.heads.ending:Ending.Config", "hidden": [256]},
        },
    },
    "env": {"type": "tokenworlds.envs.catalogue:EnvSpec", "name": "toy:catch"},
    "seed": 0,
}
OLD_MACHINE = {"packages": {"tokenworlds": "0.0.9", "torch": "2.6.0"}, "commit": "46e5b83" * 5}


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"machine": OLD_MACHINE}, "has format 1, written by tokenworlds 0.0.9 (commit 46e5b83"),
        ({}, "has format 1, written by another version"),
        ({"format": 4, "machine": {"packages": {"tokenworlds": "9.9"}}}, "by tokenworlds 9.9;"),
    ],
)
@pytest.mark.parametrize("command", ["resume", "evaluate", "dream"])
def test_a_run_of_another_format_gets_one_sentence(
    command: str,
    extra: dict[str, Any],
    expected: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"run": OLD_RUN, **extra}))
    (tmp_path / "checkpoints" / "step-000000100").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    assert main([command, str(tmp_path)]) == 2
    text = sentence(capsys.readouterr().err)
    assert expected in text
    assert "reads format 3 only: train the agent again, or use the version that wrote it" in text
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_is_not_overwritten(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (finished / "run.json").read_bytes()
    assert main(train(finished)) == 2
    assert f"tokenworlds resume {finished}" in sentence(capsys.readouterr().err)
    assert (finished / "run.json").read_bytes() == before


def test_a_folder_with_other_files_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("chapter 1")
    assert main(train(tmp_path)) == 2
    assert "is not empty" in sentence(capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_error_in_the_users_file_names_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_agents.py").write_text("\n\ndef mine():\n    return 1 / 0\n")
    assert main(["train", "my_agents.py:mine"]) == 2
    text = sentence(capsys.readouterr().err)
    assert "ZeroDivisionError" in text
    assert "line 4" in text
    assert main(["train", "my_agents.py:mien"]) == 2
    assert "did you mean 'mine'?" in sentence(capsys.readouterr().err)


def test_evaluation_with_an_unknown_protocol_is_an_error(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (finished / "evaluation.json").read_bytes()
    assert main(["evaluate", str(finished), "--protocol", "atari100k"]) == 2
    assert "unknown protocol for toy:catch 'atari100k'" in sentence(capsys.readouterr().err)
    assert (finished / "evaluation.json").read_bytes() == before


def test_a_run_on_a_missing_device_is_an_error(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    described = json.loads((finished / "run.json").read_text())
    described["run"]["device"] = "cuda:77"
    (tmp_path / "run.json").write_text(json.dumps(described))
    assert main(["resume", str(tmp_path)]) == 2
    assert "unknown device 'cuda:77'" in sentence(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("world.memory=-1", "world.memory takes 0 or more steps, not -1"),
        ("schedule.warm_up=32", "learning.world.length=16 does not fit"),
    ],
)
def test_a_recipe_that_cannot_run_leaves_no_folder(
    choice: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", "--steps", "200", "--run", str(run), "--set", choice]) == 2
    assert expected in capsys.readouterr().err
    assert not run.exists()


def test_more_environments_than_memory_holds_are_refused_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(train(Path("run"), "num_envs=100000000", "schedule.warm_up=1000000000")) == 2
    text = sentence(capsys.readouterr().err)
    assert text == "num_envs=100000000 environments do not fit into memory: choose fewer"
    assert not Path("run").exists()
