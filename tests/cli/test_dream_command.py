"""`tokenworlds dream`."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image
from tiny_runs import sentence

from tokenworlds.cli import main

LINES = ["real", "reconstruction", "tokens", "changed tokens", "dream"]


@pytest.fixture
def run(finished: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(finished, "run"))


def error_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["dream", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return sentence(captured.err)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_animation_is_the_only_change_to_the_run_folder(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = run / "replay" / "env-000" / "steps-000000.bin"
    steps.write_bytes(steps.read_bytes() + b"what a run that goes on has written since")
    before = contents(run)
    assert main(["dream", str(run)]) == 0
    out = capsys.readouterr().out
    assert f"rows    {'; '.join(LINES)}\nfile    run/dream.webp\n" == out
    after = contents(run)
    with Image.open(run / "dream.webp") as animation:
        assert (animation.format, animation.n_frames) == ("WEBP", 14)  # type: ignore[attr-defined]
    del after[run / "dream.webp"]
    assert after == before


def test_the_suffix_chooses_the_format_and_options_the_size(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["dream", str(finished), "--horizon", "3", "--json", "--out"]
    assert main([*words, "a.gif"]) == 0
    assert json.loads(capsys.readouterr().out) == {"out": "a.gif", "rows": LINES, "frames": 5}
    assert main([*words, "one.PNG", "--count", "1"]) == 0
    assert main([*words, "three.png", "--count", "3"]) == 0
    with Image.open("a.gif") as animation:
        assert (animation.format, animation.n_frames) == ("GIF", 5)  # type: ignore[attr-defined]
    with Image.open("one.PNG") as one, Image.open("three.png") as three:
        assert (one.format, one.width) == ("PNG", three.width)
        assert 2 * one.height < three.height


def test_the_seed_determines_the_picture(finished: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        words = ["dream", str(finished), "--horizon", "2", "--count", "1", "--out", f"{name}.png"]
        assert main([*words, "--seed", str(seed)]) == 0
    same, other, third = (Path(f"{name}.png").read_bytes() for name in "abc")
    assert same == other != third


def test_a_file_that_cannot_be_written_is_named(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("taken.gif").mkdir()
    for out, expected in (
        ("dream.avi", "its name must end in one of .gif, .mp4, .png, .webp"),
        ("dream", "its name must end in one of .gif, .mp4, .png, .webp"),
        ("no/dream.gif", "there is no folder no"),
        ("taken.gif", "it is a folder"),
    ):
        assert (
            error_of([str(finished), "--out", out], capsys) == f"cannot write to {out}: {expected}"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["taken.gif"]


def test_a_run_without_replay_or_checkpoint_is_an_error(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = error_of([str(run), "--horizon", "1000"], capsys)
    assert "1002 steps does not fit into replay, which holds 32 steps of each of 2" in text
    shutil.rmtree(run / "replay")
    text = error_of([str(run)], capsys)
    assert text.startswith("run has no replay to dream from: run/replay/env-000/")
    assert text.endswith("the file is missing")
    shutil.rmtree(run / "checkpoints")
    text = error_of([str(run)], capsys)
    assert text == "run has no usable checkpoint: its checkpoints are missing"
    assert not (run / "dream.webp").exists()
