"""Command lines of the pages: as words, checked against the programs, and run."""

import contextlib
import glob
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from blocks import ROOT

from tokenworlds.cli import main, parse
from tokenworlds.commands import choices
from tokenworlds.commands.train import Train
from tokenworlds.core.errors import UserError

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()


class WrongCommand(Exception):
    """A command that a reader could not execute."""


@dataclass(frozen=True, slots=True)
class Command:
    """The words of a command, and the file that its output goes to."""

    words: tuple[str, ...]
    output: str = ""

    @property
    def arguments(self) -> list[str]:
        return list(self.words[1:])


def commands_in(code: str) -> Iterator[Command]:
    """The commands of a shell block: a line each, or several with `;` between them."""
    for line in code.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";>")
        lexer.commenters, lexer.whitespace_split = "#", True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word != ";":
                words.append(word)
            elif words:
                yield redirected(words)
                words = []


def redirected(words: list[str]) -> Command:
    if ">" not in words:
        return Command(tuple(words))
    at = words.index(">")
    return Command(tuple(words[:at]), words[at + 1])


def check(command: Command) -> None:
    """Raise an error unless programs, options, names and files of a command exist."""
    program, *arguments = command.words
    if program == "python":
        program, *arguments = arguments
    if program in CHECKS:
        CHECKS[program](arguments)
    elif not (program.startswith(FOLDERS) and (ROOT / program).is_file()):
        raise WrongCommand(f"no test knows the program {program!r}")


def check_target(arguments: list[str]) -> None:
    wrong = [name for name in arguments if not re.search(rf"^{name}:", MAKEFILE, re.M)]
    if wrong:
        raise WrongCommand(f"the Makefile has no {wrong[0]!r}")


def check_installation(arguments: list[str]) -> None:
    if arguments[0] != "install":
        raise WrongCommand(f"no test knows pip {arguments[0]}")
    check_package(arguments[1])


def check_arguments(arguments: list[str]) -> None:
    """Options and names exist. Files of the reader's own, and runs, do not exist here."""
    command = parse(arguments)
    if isinstance(command, Train) and not (command.fork or ".py:" in " ".join(arguments)):
        choices.choose_run(replace(command, device="cpu", threads=1))


def check_mention(text: str) -> None:
    """A mention may leave out what the command needs, and write N for a number."""
    typed = next(commands_in(text)).arguments
    words = [word.strip("[]") for word in typed if word not in ("...", "...]")]
    numbered = ["1" if re.fullmatch("[A-Z]+", word) else word for word in words]
    try:
        parse([word for word in numbered if word != "--env-set" or "[" not in text])
    except UserError as error:
        if not str(error).startswith("Missing from"):
            raise


def check_package(name: str) -> None:
    """`tokenworlds`, or `tokenworlds[extra,...]`, or this folder."""
    found = re.fullmatch(r"(tokenworlds|\.)(?:\[([\w,-]+)\])?", name)
    if not found:
        raise WrongCommand(f"{name!r} is not this package")
    unknown = set((found[2] or "dev").split(",")) - set(PROJECT["optional-dependencies"])
    if unknown:
        raise WrongCommand(f"there is no extra {min(unknown)!r}")


def check_uvx(arguments: list[str]) -> None:
    check_package(arguments[0])
    check_arguments(arguments[1:])


def check_torchrun(arguments: list[str]) -> None:
    """`torchrun ... -m tokenworlds ...`."""
    check_arguments(arguments[arguments.index("tokenworlds") + 1 :])


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "torchrun": check_torchrun,
    "tokenworlds": check_arguments,
    "make": check_target,
    "pip": check_installation,
    "pipx": check_installation,
    "uvx": check_uvx,
}
"""By program, what its arguments must fulfil."""
FOLDERS = ("scripts/", "benchmarks/", ".ci/")
"""Where programs of the repository are."""


def execute(command: Command) -> None:
    """Run a command of this package; check one of another program."""
    if command.words[0] != "tokenworlds":
        check(command)
        return
    words = [found for word in command.arguments for found in expanded(word)]
    with contextlib.ExitStack() as stack:
        if command.output:
            file = stack.enter_context(Path(command.output).open("w"))
            stack.enter_context(contextlib.redirect_stdout(file))
        code = main(words)
    if code:
        raise WrongCommand(f"exit code {code}: {shlex.join(command.words)}")


def expanded(word: str) -> list[str]:
    """What a shell makes of a word with `*`."""
    return sorted(glob.glob(word)) or [word] if "*" in word else [word]
