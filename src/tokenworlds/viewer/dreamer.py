"""The process of one page's agent: requests as lines of JSON on standard input, answers on output.

A process of its own keeps the server responsive, and ends with its page.
"""

import json
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tokenworlds.core.errors import UserError
from tokenworlds.viewer.own_code import OwnCode

if TYPE_CHECKING:
    from tokenworlds.viewer.inquiries import Inquiries


def main(folder: str, own_code: str) -> None:
    # Environments and libraries may print; answers go to a copy of standard output.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        inquiries = open_inquiries(Path(folder), OwnCode.from_argument(own_code))
        write(answers, {"kind": "ready", **inquiries.describe()})
    except (UserError, OSError) as error:
        write(answers, {"kind": "failed", "problem": str(error)})
        return
    for line in sys.stdin:
        write(answers, inquiries.answer(json.loads(line)))


def open_inquiries(folder: Path, own_code: OwnCode) -> "Inquiries":
    import torch

    from tokenworlds.agent import open_agent
    from tokenworlds.viewer.inquiries import Inquiries

    trust = own_code.load()
    opened = open_agent(folder, trust, device="cpu")
    # Another thread hardly helps a single dream, and training may run beside it.
    torch.set_num_threads(1)
    return Inquiries(opened, trust)


def write(answers: IO[str], document: dict[str, Any]) -> None:
    try:
        text = json.dumps(document, allow_nan=False)
    except ValueError:
        problem = "the agent computes numbers that are not finite"
        text = json.dumps({"kind": "problem", "problem": problem})
    answers.write(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
