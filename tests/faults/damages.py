"""Ways to damage a file: the names in trials, and what each does.

`flip:123` inverts a bit, `cut:500` keeps 500 of 1,000 parts, `grow:9` adds bytes; the others take
no number.
"""

import errno
import os
import random
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from interposition import fail_to_open, fail_to_read

Damage = Callable[[Path, Path, int], None]
"""Damages a file; the folder outside may be used; the number is that of the name."""


def flip(path: Path, outside: Path, number: int) -> None:
    content = bytearray(path.read_bytes())
    bit = number % (8 * len(content))
    content[bit // 8] ^= 1 << (bit % 8)
    path.write_bytes(content)


def cut(path: Path, outside: Path, number: int) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * number // 1000])


def grow(path: Path, outside: Path, number: int) -> None:
    path.write_bytes(path.read_bytes() + random.Random(number).randbytes(1 + number % 5000))


def delete(path: Path, outside: Path, number: int) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def empty(path: Path, outside: Path, number: int) -> None:
    delete(path, outside, number)
    path.touch()


def zeros(path: Path, outside: Path, number: int) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def swap(path: Path, outside: Path, number: int) -> None:
    """Exchange the file with another of its name, or else with run.json or the like."""
    run = next(parent for parent in path.parents if parent.parent == outside.parent)
    others = [each for each in sorted(run.rglob(path.name)) if each != path and each.is_file()]
    others = others or [each for each in sorted(run.glob("*.*")) if each != path]
    kept = path.read_bytes()
    path.write_bytes(others[0].read_bytes())
    others[0].write_bytes(kept)


def link(path: Path, outside: Path, number: int) -> None:
    """Replace by a link to the same content outside."""
    path.rename(outside / "moved")
    path.symlink_to(outside / "moved")


def link_to_folder(path: Path, outside: Path, number: int) -> None:
    delete(path, outside, number)
    path.symlink_to(outside)


def dangling(path: Path, outside: Path, number: int) -> None:
    delete(path, outside, number)
    path.symlink_to(outside / "nothing")


def folder(path: Path, outside: Path, number: int) -> None:
    delete(path, outside, number)
    path.mkdir()


def fifo(path: Path, outside: Path, number: int) -> None:
    delete(path, outside, number)
    os.mkfifo(path)


def device(path: Path, outside: Path, number: int) -> None:
    """Replace by /dev/zero, or by a link to it for a user who may not make devices."""
    delete(path, outside, number)
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        path.symlink_to("/dev/zero")


def listening(path: Path, outside: Path, number: int) -> None:
    """Replace by a socket."""
    delete(path, outside, number)
    with socket.socket(socket.AF_UNIX) as made:
        # The path of a socket has to be short.
        with_folder = os.open(path.parent, os.O_RDONLY)
        made.bind(f"/proc/self/fd/{with_folder}/{path.name}")
        os.close(with_folder)


def untouched(path: Path, outside: Path, number: int) -> None:
    """The disk will fail, not the file."""


ONCE: dict[str, Damage] = {
    "delete": delete,
    "empty": empty,
    "zeros": zeros,
    "swap": swap,
    "link": link,
    "link_to_folder": link_to_folder,
    "dangling": dangling,
    "folder": folder,
    "fifo": fifo,
    "device": device,
    "socket": listening,
    "unopenable": untouched,
    "forbidden": untouched,
    "unreadable": untouched,
}
NUMBERED: dict[str, Damage] = {"flip": flip, "cut": cut, "grow": grow}
OF_FOLDERS = ("delete", "empty", "link", "link_to_folder", "dangling", "fifo", "socket")
REFUSED = ("link", "link_to_folder", "dangling", "fifo", "device", "socket")
"""What a folder must not hold: nothing but a sentence will do."""


def names(chance: random.Random) -> Iterator[str]:
    """All damages of a file, with several numbers for those that take one."""
    yield from ONCE
    yield from (f"flip:{chance.randrange(2**31)}" for _ in range(9))
    yield from (f"cut:{chance.randrange(1000)}" for _ in range(4))
    yield from (f"grow:{chance.randrange(2**31)}" for _ in range(2))


def apply(name: str, path: Path, outside: Path) -> None:
    kind, _, number = name.partition(":")
    {**ONCE, **NUMBERED}[kind](path, outside, int(number or 0))


def break_disk(name: str, root: Path, file: str) -> None:
    """In the process of the reader: let the disk fail, if this damage is one of the disk."""
    if name == "unopenable":
        fail_to_open(root, file, errno.EIO)
    elif name == "forbidden":
        fail_to_open(root, file, errno.EACCES)
    elif name == "unreadable":
        fail_to_read(root, file)
