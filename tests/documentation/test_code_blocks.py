"""Every command and every Python block of README.md and docs/ works as it is written.

tests/documentation/blocks.py lists the comments by which a page says that a block is only checked;
tests/documentation/shrinking.py lists the numbers that are smaller here.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from blocks import PAGES, ROOT, Block, WrongMark, blocks_of, mentioned_commands
from commands import WrongCommand, check, check_mention, commands_in, execute
from python_code import check_code, run_code
from shrinking import shrink

from tokenworlds.core.errors import UserError

QUICK = tuple(
    f"docs/{name}.md" for name in ("getting_started", "environments", "extending", "scores")
)
"""Pages that run in the everyday tests; the others are checked there, and run by `slow` ones."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def pages_that_run() -> list[Any]:
    pages = [page for page in PAGES if any(block.runs for block in blocks_of(page))]
    slow = pytest.mark.slow
    return [
        pytest.param(page, marks=() if name_of(page) in QUICK else slow, id=name_of(page))
        for page in pages
    ]


@contextmanager
def naming(place: object) -> Iterator[None]:
    """Add the place on the page to an error."""
    try:
        yield
    except BaseException as error:
        error.add_note(str(place))
        raise


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_are_valid_and_python_compiles(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for block in blocks_of(page):
        with naming(block.place):
            if block.language == "python":
                check_code(block)
            for command in commands_in(block.code) if block.language == "sh" else ():
                with naming(command.words):
                    check(command)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_sentences_are_valid(page: Path) -> None:
    for text in mentioned_commands(page):
        with naming(text):
            check_mention(text)


@pytest.fixture
def _forgotten(tmp_path: Path) -> Iterator[None]:
    """What a page imports from its folder and registers is not there for the next page."""
    registered = dict(gymnasium.registry)
    yield
    places = (tmp_path, ROOT / "examples")
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and any(Path(file).is_relative_to(place) for place in places):
            del sys.modules[name]
    gymnasium.registry.clear()
    gymnasium.registry.update(registered)


@pytest.mark.usefixtures("_forgotten")
@pytest.mark.filterwarnings("ignore:Matplotlib is currently using agg")
@pytest.mark.parametrize("page", pages_that_run())
def test_the_blocks_of_a_page_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "agg")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shrink(monkeypatch)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page):
        with naming(block.place):
            provide(block, names)
            if block.runs:
                run(block, names)


def provide(block: Block, names: dict[str, Any]) -> None:
    """What the reader is assumed to have, and the file that the block is."""
    for name, text in (*block.files, *([(block.saved_as, block.code)] if block.saved_as else [])):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    exec(block.before, names)


def run(block: Block, names: dict[str, Any]) -> None:
    if block.language == "python":
        run_code(block, names)
        return
    for command in commands_in(block.quick_code):
        with naming(command.words):
            if " ".join(command.words).startswith(block.only_parsed or ("\n",)):
                check(command)
            else:
                execute(command)


WRONG = {
    "```bash\nls\n```\n": "no test knows the language 'bash'",
    "<!-- test: skip -->\n```sh\nls\n```\n": "no test knows the comment 'skip'",
    "<!-- test: parse (hours) -->\ntext\n```sh\nls\n```\n": "not right before a block",
    "<!-- test: parse (hours) -->\n": "without a block",
    "<!-- test: parse (hours) -->\n```\noutput\n```\n": "only sh and python take",
}


@pytest.mark.parametrize(("text", "sentence"), WRONG.items(), ids=WRONG.values())
def test_what_no_test_knows_is_refused(
    text: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    monkeypatch.setattr("blocks.ROOT", tmp_path)
    with pytest.raises(WrongMark, match=sentence):
        blocks_of(page)


WRONG_COMMANDS = {
    "tokenworlds train --no-such-option": "no-such-option",
    "tokenworlds trian": "trian",
    "tokenworlds train storm --set world.nothing=1": "nothing",
    "tokenworlds train no-such-recipe": "no-such-recipe",
    "make nothing": "nothing",
    "pip install tokenworlds[nothing]": "nothing",
    "python scripts/nothing.py": "nothing",
    "rm runs": "rm",
}


@pytest.mark.parametrize(("line", "word"), WRONG_COMMANDS.items(), ids=WRONG_COMMANDS)
def test_a_wrong_command_is_refused(line: str, word: str) -> None:
    (command,) = commands_in(line)
    with pytest.raises((WrongCommand, UserError), match=word):
        check(command)
