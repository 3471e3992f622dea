"""Calls of the operating system that change files below a folder, seen before they happen.

All files of a run are written by Python functions of `os`; these are replaced in a forked process.
TensorBoard's file is the exception, which nothing reads back.
"""

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tokenworlds.core import files

Change = Literal[
    "create", "write", "truncate", "fsync", "rename", "unlink", "mkdir", "rmdir", "mark"
]
Name = str | bytes | os.PathLike[str] | os.PathLike[bytes]
PWRITE = os.pwrite


@dataclass(frozen=True, slots=True)
class Operation:
    """A change of a file or folder; paths are relative to the watched folder.

    `target` is the new name of a rename, `offset` also the size after a truncation. A mark is no
    change: the harness records with it what the run has finished, in `path`.
    """

    kind: Change
    path: str
    target: str = ""
    offset: int = 0
    content: bytes = b""
    descriptor: int = -1


Before = Callable[[Operation], None]


class Interposition:
    """Calls `before` with every operation below `root`, from this moment to the process's end."""

    def __init__(self, root: Path, before: Before) -> None:
        self.root = os.path.realpath(root)
        self.before = before
        self._replace("open", self._opened)
        self._replace("pwrite", lambda fd, data, offset: self._written(fd, data, offset))
        self._replace("write", lambda fd, data: self._written(fd, data, -1))
        self._replace("ftruncate", lambda fd, size: self._of("truncate", fd, offset=size))
        self._replace("fsync", lambda fd: self._of("fsync", fd))
        for name in ("rename", "replace"):
            self._replace(name, self._renamed)
        for name in ("unlink", "remove"):
            self._replace(name, lambda path, *, dir_fd=None: self._removed("unlink", path, dir_fd))
        self._replace("rmdir", lambda path, *, dir_fd=None: self._removed("rmdir", path, dir_fd))
        self._replace("mkdir", self._made)

    def _replace(self, name: str, describe: Callable[..., Operation | None]) -> None:
        original: Callable[..., Any] = getattr(os, name)

        def call(*words: Any, **more: Any) -> Any:
            operation = describe(*words, **more)
            if operation is not None:
                self.before(operation)
            return original(*words, **more)

        setattr(os, name, call)

    def _of(self, kind: Change, fd: int, **more: Any) -> Operation | None:
        path = self._inside(os.readlink(f"/proc/self/fd/{fd}"))
        return None if path is None else Operation(kind, path, descriptor=fd, **more)

    def _written(self, fd: int, data: Any, offset: int) -> Operation | None:
        if fd <= 2:
            return None
        return self._of("write", fd, offset=offset, content=bytes(data))

    def _at(self, kind: Change, path: Name, dir_fd: int | None, **more: Any) -> Operation | None:
        found = self._inside(absolute(path, dir_fd))
        return None if found is None else Operation(kind, found, **more)

    def _opened(
        self, path: Name, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> Operation | None:
        if not flags & os.O_CREAT or os.path.lexists(absolute(path, dir_fd)):
            return None
        return self._at("create", path, dir_fd)

    def _removed(self, kind: Change, path: Name, dir_fd: int | None) -> Operation | None:
        there = os.path.lexists(absolute(path, dir_fd))
        return self._at(kind, path, dir_fd) if there else None

    def _made(
        self, path: Name, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> Operation | None:
        made = absolute(path, dir_fd)
        if os.path.lexists(made) or not os.path.isdir(os.path.dirname(made)):
            return None  # This will fail.
        return self._at("mkdir", path, dir_fd)

    def _renamed(self, old: Name, new: Name, **folders: int | None) -> Operation | None:
        target = self._inside(absolute(new, folders.get("dst_dir_fd")))
        return self._at("rename", old, folders.get("src_dir_fd"), target=target or "")

    def _inside(self, path: str) -> str | None:
        """The path relative to the watched folder, None if it is elsewhere."""
        path = path.removesuffix(" (deleted)")
        if path != self.root and not path.startswith(f"{self.root}/"):
            return None
        return os.path.relpath(path, self.root)


def absolute(path: Name, dir_fd: int | None) -> str:
    """The path with its folders resolved, and its last component as it is."""
    folder = "." if dir_fd is None else f"/proc/self/fd/{dir_fd}"
    parent, name = os.path.split(os.path.join(folder, os.fsdecode(path)))
    return os.path.join(os.path.realpath(parent), name)


class KillAt:
    """SIGKILL before the operation of this number, or with half of it done if that is a write."""

    def __init__(self, number: int, torn: bool) -> None:
        self.number = number
        self.torn = torn

    def __call__(self, operation: Operation) -> None:
        self.number -= 1
        if self.number == 0:
            if self.torn and operation.kind == "write" and operation.offset >= 0:
                half = operation.content[: len(operation.content) // 2]
                PWRITE(operation.descriptor, half, operation.offset)
            os.kill(os.getpid(), signal.SIGKILL)


def fail_to_open(root: Path, name: str, number: int) -> None:
    """From now on, opening this file of a folder fails with an error number."""
    original, refused = os.open, os.path.join(os.path.realpath(root), name)

    def call(path: Name, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if absolute(path, dir_fd) == refused:
            raise OSError(number, os.strerror(number), os.fsdecode(path))
        return original(path, flags, mode, dir_fd=dir_fd)

    os.open = call


def fail_to_read(root: Path, name: str) -> None:
    """From now on, reading this file of a folder fails as on a broken disk."""
    original, refused = files.opened, os.path.join(os.path.realpath(root), name)

    def broken(*words: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    class Unreadable:
        def __init__(self, *words: Any) -> None:
            self.opened = original(*words)

        def __enter__(self) -> Any:
            file = self.opened.__enter__()
            at = os.path.realpath(f"/proc/self/fd/{file.fileno()}")
            return BrokenFile(file) if at == refused else file

        def __exit__(self, *error: Any) -> Any:
            return self.opened.__exit__(*error)

    class BrokenFile:
        def __init__(self, file: Any) -> None:
            self.fileno, self.read, self.readinto = file.fileno, broken, broken

    files.opened = Unreadable  # type: ignore[assignment]
