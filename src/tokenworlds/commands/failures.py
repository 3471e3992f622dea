"""What can go wrong while a command runs, as a sentence and an exit code."""

import errno
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


def disk_error(error: OSError, folder: Path | None = None) -> UserError | None:
    """The sentence for a disk that is full, read-only or out of bounds; None for other errors."""
    if error.errno not in DISK:
        return None
    where = folder or error.filename or "a file"
    reason = (error.strerror or "cannot be used").lower()
    return UserError(f"cannot write to {where}: {reason}{way_on(folder)}")


def way_on(folder: Path | None) -> str:
    """How a run that holds checkpoints is gone on with."""
    if folder is None or not any((folder / "checkpoints").glob("step-*")):
        return ""
    return f"; nothing is lost: put that right, then 'tokenworlds resume {folder}'"
