"""Code blocks of the pages, and the comments that say how a test treats them.

A comment stands right before a block, or before another such comment:

    <!-- test: parse (REASON) -->     check the block instead of running it
    <!-- test: parse TEXT (REASON) -->    the same for commands that begin with the text
    <!-- test: save FILE -->          the block is this file
    <!-- test: A becomes B -->        replace text, so that the block is quick
    <!-- test: file FILE
    TEXT -->                          a file that the reader is assumed to have
    <!-- test: before
    CODE -->                          Python to run first, for what the reader is assumed to have

All other blocks of the languages in `RUNNABLE` run, those of a page in order.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
RUNNABLE = ("sh", "python")
SHOWN = ("", "text", "json", "math")
"""Languages of what is only shown: output, diagrams, data."""
MARK_OR_FENCE = re.compile(
    r"^<!-- test: (?P<mark>.*?)\s*-->$|^```(?P<language>[^\n`]*)\n(?P<code>.*?)^```$", re.S | re.M
)


class WrongMark(Exception):
    """A comment or a language that no test knows."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page with what its comments say."""

    place: str = ""
    language: str = ""
    code: str = ""
    only_parsed: tuple[str, ...] = ()
    """Beginnings of the commands that are not run; "" is all."""
    saved_as: str = ""
    files: tuple[tuple[str, str], ...] = ()
    before: str = ""
    replaced: tuple[tuple[str, str], ...] = ()

    @property
    def runs(self) -> bool:
        return self.language in RUNNABLE and not ("" in self.only_parsed or self.saved_as)

    @property
    def quick_code(self) -> str:
        code = self.code
        for text, other in self.replaced:
            if text not in code:
                raise WrongMark(f"{self.place}: {text!r} is not in the block")
            code = code.replace(text, other)
        return code

    def marked(self, mark: str) -> "Block":
        """The block with one more comment."""
        if found := re.fullmatch(r"parse ([^()]*?) ?\(.+\)", mark):
            return replace(self, only_parsed=(*self.only_parsed, found[1]))
        if found := re.fullmatch(r"save (\S+)", mark):
            return replace(self, saved_as=found[1])
        if found := re.fullmatch(r"file (\S+)\n(.*)", mark, re.S):
            return replace(self, files=(*self.files, (found[1], found[2])))
        if found := re.fullmatch(r"before\n(.*)", mark, re.S):
            return replace(self, before=found[1])
        if found := re.fullmatch(r"(.+?) becomes (.+)", mark):
            return replace(self, replaced=(*self.replaced, (found[1], found[2])))
        raise WrongMark(f"{self.place}: no test knows the comment {mark!r}")


def blocks_of(page: Path) -> list[Block]:
    text, name = page.read_text(), str(page.relative_to(ROOT))
    found, block, end = [], Block(), 0
    for token in MARK_OR_FENCE.finditer(text):
        place = f"{name}:{text.count(chr(10), 0, token.start()) + 1}"
        if block.place and text[end : token.start()].strip():
            raise WrongMark(f"{block.place}: a test comment is not right before a block")
        block, end = replace(block, place=place), token.end()
        if token["mark"] is not None:
            block = block.marked(token["mark"])
        else:
            found.append(finished(block, token["language"], token["code"]))
            block = Block()
    if block.place:
        raise WrongMark(f"{block.place}: a test comment without a block")
    return found


def mentioned_commands(page: Path) -> list[str]:
    """The commands of this package that sentences and tables mention."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
    return [" ".join(span.split()) for span in re.findall(r"`(tokenworlds [^`]+)`", text)]


def finished(block: Block, language: str, code: str) -> Block:
    if language not in (*RUNNABLE, *SHOWN):
        raise WrongMark(f"{block.place}: no test knows the language {language!r}")
    if language in SHOWN and block != Block(place=block.place):
        raise WrongMark(f"{block.place}: only {' and '.join(RUNNABLE)} take test comments")
    return replace(block, language=language, code=code)
