"""Files that only grow: written at known offsets, checked by running checksums."""

import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 20


class DamagedReplay(Exception):
    """A replay file lacks bytes that were written to it, or holds others."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}")
        self.path = path


@dataclass(frozen=True, slots=True)
class Extent:
    """The part of a file that counts: its first `size` bytes, and their CRC-32."""

    size: int = 0
    checksum: int = 0


def extend(path: Path, known: Extent, data: NDArray[Any]) -> Extent:
    """Make an array the content of a file whose first bytes hold the array's beginning already.

    Whatever an earlier attempt left behind the known bytes is overwritten, so a call that failed
    may be repeated.
    """
    fresh = data.view(np.uint8).ravel()[known.size :].data
    write_at(path, known.size, fresh)
    return Extent(known.size + len(fresh), zlib.crc32(fresh, known.checksum))


def write_at(path: Path, offset: int, data: memoryview) -> None:
    """Write bytes at an offset, end the file there and wait until it is on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    with open(descriptor, "wb", buffering=0) as file:
        file.seek(offset)
        while data:
            data = data[file.write(data) :]
        file.truncate()
        os.fsync(descriptor)
    if offset == 0:  # The file, and perhaps its folder, may be new.
        sync_folder(path.parent)
        sync_folder(path.parent.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk (where the system can)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check(path: Path, extent: Extent) -> None:
    """Raise `DamagedReplay` unless the file begins with the bytes of this extent."""
    if not path.is_file():
        raise DamagedReplay(path, "the file is missing")
    size = path.stat().st_size
    if size < extent.size:
        raise DamagedReplay(path, f"{size} bytes are left of {extent.size}")
    found = checksum(path, extent.size)
    if found != extent.checksum:
        raise DamagedReplay(path, f"checksum {found:08x} instead of {extent.checksum:08x}")


def checksum(path: Path, size: int) -> int:
    """The CRC-32 of the first bytes of a file."""
    result = 0
    with open(path, "rb") as file:
        while size:
            block = file.read(min(size, BLOCK))
            if not block:
                raise DamagedReplay(path, f"it ends {size} bytes early")
            result = zlib.crc32(block, result)
            size -= len(block)
    return result


def cut(path: Path, size: int) -> None:
    """Shorten a file to its first bytes; a file of which nothing remains is deleted."""
    if not size:
        path.unlink()
    elif path.stat().st_size > size:
        os.truncate(path, size)
