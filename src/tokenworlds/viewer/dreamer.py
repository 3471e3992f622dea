"""The process of one dream: requests as lines of JSON on standard input, answers on output.

A process of its own keeps the server responsive, and ends with its player.
"""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import IO, Any

from tokenworlds.core.errors import UserError


def main(folder: str) -> None:
    # Environments and libraries may print; answers go to a copy of standard output.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        dream = open_dream(Path(folder))
        write(answers, {"kind": "ready", **dream.describe()})
    except (UserError, OSError) as error:
        write(answers, {"kind": "failed", "problem": str(error)})
        return
    for line in sys.stdin:
        write(answers, answer(dream, json.loads(line)))


def open_dream(folder: Path) -> Any:
    import torch

    from tokenworlds.agent import open_agent
    from tokenworlds.runs.own_code import Trust
    from tokenworlds.viewer.dream import Dream

    trust = Trust()
    opened = open_agent(folder, trust, device="cpu")
    # Another thread hardly helps a single dream, and training may run beside it.
    torch.set_num_threads(1)
    return Dream(opened, trust)


def answer(dream: Any, request: Any) -> dict[str, Any]:
    """The state that a request asks for, or the sentence why there is none."""
    try:
        return {"kind": "state", **perform(dream, request)}
    except UserError as error:
        return {"kind": "problem", "problem": str(error)}
    except Exception as error:  # The player reads the reason; the log has the rest.
        traceback.print_exc()
        return {"kind": "problem", "problem": f"the dream failed: {error!r:.200}"}


def perform(dream: Any, request: Any) -> dict[str, Any]:
    match request:
        case {
            "kind": "start",
            "source": "replay" | "reset" as source,
            "step": int() | None as step,
        }:
            started: dict[str, Any] = dream.start(source, step)
            return started
        case {"kind": "step", "from": int(number), "action": action}:
            stepped: dict[str, Any] = dream.step(number, action)
            return stepped
    raise UserError("the page sent a request that this viewer does not know: load it again")


def write(answers: IO[str], document: dict[str, Any]) -> None:
    answers.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
