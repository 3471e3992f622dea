"""Errors of commands, each as one sentence with an exit code."""

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenworlds.core.errors import UserError

DISK = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
}


class Failure(Exception):
    """The command failed, but not because of the user's input; exits with code 1."""


@contextlib.contextmanager
def explaining_disk_errors(folder: Path | None = None) -> Iterator[None]:
    """Turn errors of the disk (full, read-only, no permission) into a `UserError`."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK:
            raise
        reads = folder is None or error.errno == errno.EIO
        what = f"cannot use {error.filename or folder}" if reads else f"cannot write to {folder}"
        reason = (error.strerror or "unknown reason").lower()
        raise UserError(f"{what}: {reason}{resume_hint(folder)}") from error


def resume_hint(folder: Path | None, ranks: int = 1) -> str:
    if folder is None or not any((folder / "checkpoints").glob("step-*")):
        return ""
    launch = f"torchrun --nproc-per-node {ranks} -m tokenworlds" if ranks > 1 else "tokenworlds"
    return f"; nothing is lost: fix this, then run '{launch} resume {folder}'"


def check_output(path: Path, formats: Sequence[str]) -> Path:
    """The path, if a file of one of these formats can be written there."""
    problem = find_problem(path, formats)
    if problem:
        raise UserError(f"cannot write to {path}: {problem}")
    return path


def find_problem(path: Path, formats: Sequence[str]) -> str:
    if path.suffix.lower() not in formats:
        ends = f"one of {', '.join(formats)}" if len(formats) > 1 else formats[0]
        return f"its name must end in {ends}"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    if path.is_dir():
        return "it is a folder"
    return "" if os.access(path.parent, os.W_OK) else f"{path.parent} is read-only"
