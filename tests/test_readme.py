"""The commands of the README are valid, and its links have targets."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from tokenworlds.cli import parse
from tokenworlds.commands.choices import choose_run
from tokenworlds.commands.train import Train
from tokenworlds.recipes.catalogue import RECIPES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def commands() -> list[list[str]]:
    """The arguments of every `tokenworlds` command in the shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.S)
    lines = [line.partition("#")[0] for block in blocks for line in block.splitlines()]
    typed = [shlex.split(part) for line in lines for part in line.split(";")]
    return [words[1:] for words in typed if words and words[0] == "tokenworlds"]


def test_commands_are_found() -> None:
    assert {words[0] for words in commands()} >= {"train", "resume", "evaluate", "show", "doctor"}


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_are_valid(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command = parse(words)
    if isinstance(command, Train):
        choose_run(replace(command, device="cpu", threads=1))


def test_make_targets_exist() -> None:
    targets = re.findall(r"^make (\w[\w-]*)", README, re.M)
    makefile = (ROOT / "Makefile").read_text()
    assert {"demo", "test"} <= set(targets)
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets)


def test_links_have_targets() -> None:
    links = re.findall(r"\]\(((?!http)[^)#]+)\)", README)
    assert links
    assert all((ROOT / link).is_file() for link in links)


def test_every_recipe_is_in_the_table() -> None:
    assert all(f"`{name}`" in README for name in RECIPES)
