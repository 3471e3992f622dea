"""What the runs of a sweep printed, each in a file of its own."""

from pathlib import Path

TAIL = 2**14
ERROR = "tokenworlds: "


def last_line(log: Path) -> str:
    """The last line of a log; empty if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - TAIL, 0))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""


def error_in(log: Path) -> str:
    """The sentence of an error, if a log ends with one."""
    line = last_line(log)
    return line.removeprefix(ERROR) if line.startswith(ERROR) else ""


def failure(log: Path, code: int) -> str:
    """Why a run ended with an exit code other than 0."""
    if code < 0:
        return f"killed by signal {-code}"
    return error_in(log) or last_line(log) or f"exit code {code}, and nothing in {log}"
