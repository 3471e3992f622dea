"""What can go wrong while a command runs, as a sentence and an exit code."""

import contextlib
import errno
from collections.abc import Iterator
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
    """The command cannot go on, through no mistake of the user's; exits with code 1."""


@contextlib.contextmanager
def naming_the_disk(folder: Path | None = None) -> Iterator[None]:
    """Turns a disk that is full, read-only or out of bounds into a sentence for the user."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK:
            raise
        what = f"cannot write to {folder}" if folder else f"cannot use {error.filename}"
        reason = (error.strerror or "no reason is known").lower()
        raise UserError(f"{what}: {reason}{way_on(folder)}") from error


def way_on(folder: Path | None) -> str:
    """How a run that holds checkpoints is gone on with."""
    if folder is None or not any((folder / "checkpoints").glob("step-*")):
        return ""
    return f"; nothing is lost: put that right, then 'tokenworlds resume {folder}'"
