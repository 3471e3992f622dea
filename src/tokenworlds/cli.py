"""The command line: parses and runs a command, and turns errors into exit codes."""

import contextlib
import io
import itertools
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import tyro
from tyro.extras import subcommand_cli_from_dict

from tokenworlds.commands.agents import Agents
from tokenworlds.commands.bench import Bench
from tokenworlds.commands.check_env import CheckEnv
from tokenworlds.commands.combinations import Combinations
from tokenworlds.commands.doctor import Doctor
from tokenworlds.commands.dream import Dream
from tokenworlds.commands.envs import Envs
from tokenworlds.commands.errors import Failure, explaining_disk_errors
from tokenworlds.commands.evaluate import Evaluate
from tokenworlds.commands.export import Export
from tokenworlds.commands.figure import Figure
from tokenworlds.commands.film import Film
from tokenworlds.commands.import_weights import Import
from tokenworlds.commands.literature import Literature
from tokenworlds.commands.play import Play
from tokenworlds.commands.receipt import Receipt
from tokenworlds.commands.report import Report
from tokenworlds.commands.resume import Resume
from tokenworlds.commands.runs import Runs
from tokenworlds.commands.show import Show
from tokenworlds.commands.sweep import Sweep
from tokenworlds.commands.train import Train
from tokenworlds.commands.view import View
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.process import prepare_process, prepare_streams

COMMANDS: dict[str, Callable[..., Any]] = {
    "train": Train,
    "resume": Resume,
    "sweep": Sweep,
    "evaluate": Evaluate,
    "dream": Dream,
    "film": Film,
    "runs": Runs,
    "view": View,
    "play": Play,
    "report": Report,
    "receipt": Receipt,
    "figure": Figure,
    "export": Export,
    "import": Import,
    "show": Show,
    "combinations": Combinations,
    "bench": Bench,
    "agents": Agents,
    "envs": Envs,
    "check-env": CheckEnv,
    "literature": Literature,
    "doctor": Doctor,
}
ABOUT = "Agents that learn from pixels inside a world model made of discrete tokens."
USER_ERROR, FAILED, INTERRUPTED, BROKEN_PIPE = 2, 1, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    prepare_streams()
    args = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with explaining_disk_errors():
            return run(args)
    except UserError as error:
        return print_error(error, USER_ERROR)
    except Failure as error:
        return print_error(error, FAILED)
    except BrokenPipeError:
        # Otherwise Python fails to flush stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return print_error("interrupted", INTERRUPTED)


def run(args: list[str]) -> int:
    if args == ["--version"]:
        print(f"tokenworlds {version('tokenworlds')}")
        return 0
    if args and not args[0].startswith("-") and args[0] not in COMMANDS:
        raise unknown("command", args[0], COMMANDS)
    command = parse(args or ["--help"])
    prepare_process()
    code: int = command.execute()
    return code


def parse(args: list[str]) -> Any:
    """The command with its options; --help exits here."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            if args[0] in COMMANDS:
                # The parser of all commands would suggest options of other commands.
                prog = f"tokenworlds {args[0]}"
                return tyro.cli(COMMANDS[args[0]], prog=prog, args=args[1:])
            return subcommand_cli_from_dict(
                COMMANDS, prog="tokenworlds", description=ABOUT, args=args
            )
    except SystemExit as end:
        if end.code:
            raise UserError(sentence(errors.getvalue(), args)) from None
        raise


def sentence(box: str, args: Sequence[str]) -> str:
    """The parser's error box as one sentence that refers to the right --help."""
    lines = [line.strip("│╭╮╰╯ ") for line in box.splitlines()[1:]]
    opening = list(itertools.takewhile(lambda line: line.strip("─"), lines))
    # A line that ends in a colon is completed by the next.
    opening = opening[:2] if opening and opening[0].endswith(":") else opening
    near = re.search(r"Perhaps you meant:\s+(--[\w-]+)", "\n".join(lines))
    hint = f"; did you mean {near[1]}?" if near else ""
    help_for = f"tokenworlds {args[0]} --help" if args[0] in COMMANDS else "tokenworlds --help"
    return f"{' '.join(opening).rstrip('.')}{hint}; see '{help_for}'"


def print_error(error: object, code: int) -> int:
    """Print on one line; returns the exit code."""
    print(f"tokenworlds: {' '.join(str(error).split())}", file=sys.stderr)
    return code
