"""`tokenworlds figure`: the list, the written file, and what it says to wrong input."""

import json
from pathlib import Path

import pytest
from PIL import Image

from tokenworlds.cli import main
from tokenworlds.figures.catalogue import ENTRIES, FIGURES

NAMES = ["step-vq-2a", "step-vq-2b", *(f"step-vq-{number}" for number in range(7, 11))]
NAMES += ["git-storm-16", "git-storm-17", "swm-8", "delta-iris-3"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write into the current folder."""
    monkeypatch.chdir(tmp_path)


def error_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["figure", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("tokenworlds: ").strip()


def test_without_a_name_every_figure_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(NAMES)]] == NAMES
    assert all(len(line) <= 100 for line in lines)
    assert main(["figure", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in listed] == NAMES
    assert [each["name"] for each in listed if each["needs_run"]] == [
        name for name in NAMES if name not in ("step-vq-2a", "step-vq-2b", "swm-8")
    ]


def test_a_wrong_name_gives_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    text = error_of(["git-storm-18"], capsys)
    assert text.startswith("unknown figure 'git-storm-18': choose from delta-iris-3, ")
    assert text.endswith("; did you mean 'git-storm-17'?")


@pytest.mark.parametrize("entry", [each for each in ENTRIES if each.examples], ids=lambda e: e.name)
def test_a_missing_run_gives_the_commands_that_make_the_figure(
    entry: object, capsys: pytest.CaptureFixture[str]
) -> None:
    name = str(getattr(entry, "name", ""))
    text = error_of([name], capsys)
    for recipe, env in FIGURES[name].examples:
        assert f"'tokenworlds train {recipe} --env {env} --size paper'" in text
        assert f"--run runs/{recipe}-{env.replace(':', '-')}-s0" in text
    assert f"'tokenworlds figure {name} --run " in text


def test_the_suggested_command_trains_into_the_suggested_folder() -> None:
    from tokenworlds.commands.choices import choose_run, default_folder
    from tokenworlds.commands.train import Train

    for entry in ENTRIES:
        for recipe, env in entry.examples:
            folder = default_folder(choose_run(Train(recipe=recipe, env=env)))
            assert f"--run {folder} " in f"{entry.how_to()} ".replace("'", " ")


def test_options_that_a_figure_does_not_read_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = error_of(["step-vq-2b", "--run", "runs/a"], capsys)
    assert text == "step-vq-2b takes no --run; its options are --size"
    text = error_of(["git-storm-16", "--run", "runs/a", "--bench", "b.json"], capsys)
    assert text.startswith("git-storm-16 takes no --bench; its options are --recipe, --run")


def test_bad_values_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = error_of(["step-vq-2b", "--out", "a.jpg"], capsys)
    assert text == "cannot write to a.jpg: its name must end in .png"
    assert "did you mean 'dark'?" in error_of(["swm-8", "--theme", "drak"], capsys)
    assert "did you mean 'paper'?" in error_of(["step-vq-2b", "--size", "papr"], capsys)
    text = error_of(["step-vq-8", "--run", "nowhere"], capsys)
    assert text == "'nowhere' is not a run folder: there is no such folder"
    assert list(tmp_path.iterdir()) == []


def test_the_file_holds_caption_command_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", "swm-8", "--out", "bars.png", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["out"] == "bars.png"
    with Image.open("bars.png") as image:
        assert image.width == 1600
        assert image.info["Description"] == document["caption"]
        assert image.info["Source"] == "tokenworlds figure swm-8"
        assert json.loads(image.info["Data"]) == document["data"]
    assert document["caption"].startswith("After Smaller World Models, figure 8. ")


def test_a_figure_is_the_same_bytes_again_and_dark_has_a_dark_background() -> None:
    for name, theme in (("a", "light"), ("b", "light"), ("c", "dark")):
        words = ["figure", "step-vq-2b", "--size", "nano", "--theme", theme]
        assert main([*words, "--out", f"{name}.png"]) == 0
    assert Path("a.png").read_bytes() == Path("b.png").read_bytes()
    with Image.open("a.png") as light, Image.open("c.png") as dark:
        assert light.getpixel((0, 0)) == (255, 255, 255)
        assert dark.getpixel((0, 0)) == (13, 17, 23)


def test_the_default_file_has_the_name_of_the_figure() -> None:
    assert main(["figure", "step-vq-2b", "--size", "nano"]) == 0
    assert [path.name for path in Path().iterdir()] == ["step-vq-2b.png"]
