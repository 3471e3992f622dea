"""`tokenworlds evaluate RUN --world`, on a run of a second."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import train

from tokenworlds.cli import main
from tokenworlds.core.files import DamagedFile
from tokenworlds.evaluation.world import document, held_out
from tokenworlds.evaluation.world.results import read_world


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "tiny"
    assert main(train(path, steps=32)) == 0
    return path


@pytest.fixture(scope="module")
def printed(run: Path) -> list[str]:
    """The lines of a measurement."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setattr(held_out, "STEPS", 10)
        patch.setattr(held_out, "ENVIRONMENTS", 2)
        assert main(["evaluate", str(run), "--world"]) == 0
    return out.getvalue().splitlines()


def test_the_command_says_one_sentence_per_part_and_where_to_look_first(
    printed: list[str],
) -> None:
    assert len(printed) == 9
    assert all(line.startswith(("good", "fault", "?")) for line in printed[:6])
    assert printed[6].startswith("so      look first at the tokenizer")


def test_the_file_is_signed_and_holds_figures_and_verdict(printed: list[str]) -> None:
    file = Path(printed[7].split(maxsplit=1)[1])
    assert file.name == "world-step-32-toy-s0.json"
    found: dict[str, Any] = read_world(file)
    assert found["held_out"]["steps"] == 20
    assert found["replay"]["steps"] == 16 * 16
    assert [each["part"] for each in found["verdict"]][:2] == ["tokenizer", "dynamics"]
    assert found["absent"]["video"] == "0 windows have 16 frames, and 16 are needed"


def test_an_edited_file_is_noticed(printed: list[str], tmp_path: Path) -> None:
    file = Path(printed[7].split(maxsplit=1)[1])
    edited = {**json.loads(file.read_text()), "recipe": "another"}
    (tmp_path / "world.json").write_text(json.dumps(edited))
    with pytest.raises(DamagedFile):
        read_world(tmp_path / "world.json")


def test_the_page_is_self_contained(printed: list[str]) -> None:
    text = Path(printed[8].split(maxsplit=1)[1]).read_text()
    assert "World model of step-vq-m (nano)" in text
    assert text.count('class="fault"') >= 1
    assert "http" not in text
    assert len(text) < 5_000_000


@pytest.mark.usefixtures("printed")
def test_runs_are_compared_on_one_page(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("frames_png", "tokens_png", "outcomes_png", "value_png", "examples_png"):
        monkeypatch.setattr(document, name, lambda *_: None)
    words = ["evaluate", str(run), "--world", "--episodes", "1", "--compare", str(run)]
    assert main(words) == 0
    page = Path(capsys.readouterr().out.splitlines()[-1].split(maxsplit=1)[1])
    assert page.name == "world-step-32-toy-s0-1-episodes-compared.html"
    assert "World models compared" in page.read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--compare", "nowhere"), "nowhere was not measured yet"),
        (("--fvd-network", "nowhere.pt"), "--fvd-network nowhere.pt is no file"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    run: Path, words: tuple[str, str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(run), "--world", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_run_without_a_world_model_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ppo"
    small = ["resolution=16", "num_envs=2", "evaluation.final_episodes=1", "evaluation.every=0"]
    small += ["learning.behaviour.length=3", "learning.behaviour.batch=2"]
    assert main(["train", "ppo", "--run", str(path), "--steps", "8", "--set", *small]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(path), "--world"]) == 2
    assert "has no world model" in capsys.readouterr().err
