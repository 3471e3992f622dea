"""The command line: finds the command, runs it, and turns what goes wrong into an exit code."""

import contextlib
import io
import itertools
import os
import re
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any

import tyro
from tyro.conf import subcommand

from tokenworlds.commands.agents import Agents
from tokenworlds.commands.bench import Bench
from tokenworlds.commands.doctor import Doctor
from tokenworlds.commands.dream import Dream
from tokenworlds.commands.envs import Envs
from tokenworlds.commands.evaluate import Evaluate
from tokenworlds.commands.failures import Failure, naming_the_disk
from tokenworlds.commands.resume import Resume
from tokenworlds.commands.show import Show
from tokenworlds.commands.train import Train
from tokenworlds.core.errors import UserError, unknown

Command = (
    Annotated[Train, subcommand("train")]
    | Annotated[Resume, subcommand("resume")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[Dream, subcommand("dream")]
    | Annotated[Show, subcommand("show")]
    | Annotated[Bench, subcommand("bench")]
    | Annotated[Agents, subcommand("agents")]
    | Annotated[Envs, subcommand("envs")]
    | Annotated[Doctor, subcommand("doctor")]
)
COMMANDS = ("train", "resume", "evaluate", "dream", "show", "bench", "agents", "envs", "doctor")
ABOUT = "Agents that learn from pixels inside a world model made of discrete tokens."
MISTAKE, FAILED, INTERRUPTED, NOBODY_READS = 2, 1, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with naming_the_disk():
            return run(words)
    except UserError as error:
        return complain(error, MISTAKE)
    except Failure as error:
        return complain(error, FAILED)
    except BrokenPipeError:
        # Python would complain about what it still holds for a reader that is gone.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except KeyboardInterrupt:
        return complain("interrupted", INTERRUPTED)


def run(words: list[str]) -> int:
    """Parse and execute."""
    if words == ["--version"]:
        print(f"tokenworlds {version('tokenworlds')}")
        return 0
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        raise unknown("command", words[0], COMMANDS)
    code: int = parse(words or ["--help"]).execute()
    return code


def parse(words: list[str]) -> Any:
    """The command with its options; help ends the program here."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(Command, prog="tokenworlds", description=ABOUT, args=words)
    except SystemExit as end:
        if end.code:
            raise UserError(sentence(said.getvalue(), words)) from None
        raise


def sentence(box: str, words: Sequence[str]) -> str:
    """The gist of what the parser drew a box around, and where to read more."""
    lines = [line.strip("│╭╮╰╯ ") for line in box.splitlines()[1:]]
    opening = list(itertools.takewhile(lambda line: line.strip("─"), lines))
    # Under a line that only announces, the next one says it all.
    opening = opening[:2] if opening and opening[0].endswith(":") else opening
    near = re.search(r"Perhaps you meant:\s+(--[\w-]+)", "\n".join(lines))
    hint = f"; did you mean {near[1]}?" if near else ""
    help_for = f"tokenworlds {words[0]} --help" if words[0] in COMMANDS else "tokenworlds --help"
    return f"{' '.join(opening).rstrip('.')}{hint}; see '{help_for}'"


def complain(error: object, code: int) -> int:
    """Tell it on one line."""
    print(f"tokenworlds: {' '.join(str(error).split())}", file=sys.stderr)
    return code
