"""Files of a run folder: paths stay inside it, links are refused, writes survive a kill.

A folder may come from anybody. Every file is opened relative to the folder, component by component,
without following links, and must be a regular file. Sizes and nesting are checked before memory is
taken. A file that is replaced is written beside its target, synced and renamed.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

from tokenworlds.core.errors import UserError

PARTIAL, DELETING = ".partial-", ".deleting-"
LONGEST_JSON = 64 * 2**20
DEEPEST_JSON = 64
CHECKSUM = "checksum"
BRACKETS = re.compile(r"[\[\]{}]")
READ = os.O_RDONLY
CREATE = os.O_WRONLY | os.O_CREAT
# A FIFO without a writer would block an open for reading.
SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LINKED = {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}


class DamagedFile(UserError):
    """A file is missing, or not as it was written. An error of the disk is no damage."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}")
        self.path = path
        self.reason = reason


def open_inside(root: Path, name: str, flags: int = READ) -> int:
    """A descriptor of a regular file in a folder, whose own path may contain links."""
    *folders, last = split(root, name)
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = open_entry(here, folder, os.O_RDONLY | os.O_DIRECTORY, root / name)
            os.close(here)
            here = below
        descriptor = open_entry(here, last, flags, root / name)
    finally:
        os.close(here)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{root / name} is no regular file: a run folder holds files and folders")
    return descriptor


def split(root: Path, name: str) -> tuple[str, ...]:
    """The components of a relative path without `..`."""
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts or not path.parts:
        raise UserError(f"{root} names a file {name!r}, which is not inside the folder")
    return path.parts


def open_entry(folder: int, name: str, flags: int, path: Path) -> int:
    try:
        return os.open(name, flags | SAFE, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno in LINKED and is_link(name, folder):
            raise linked(path) from None
        if error.errno == errno.ENXIO:  # A FIFO or a socket.
            raise UserError(f"{path} is no regular file") from None
        raise OSError(error.errno, error.strerror, str(path)) from None


def is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def linked(path: Path) -> UserError:
    return UserError(f"{path} is a symbolic link: a run folder holds only files and folders")


def check_tree(root: Path) -> None:
    """Raise `UserError` for a link, device, FIFO or socket anywhere below a folder."""
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder) / name
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                continue  # A run may be deleting it.
            if stat.S_ISLNK(mode):
                raise linked(path)
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise UserError(f"{path} is no regular file: a run folder holds files and folders")


@contextlib.contextmanager
def opened(root: Path, name: str, flags: int = READ) -> Iterator[IO[bytes]]:
    """A file inside a folder, unbuffered; `DamagedFile` if it is missing."""
    try:
        descriptor = open_inside(root, name, flags)
    except FileNotFoundError:
        raise DamagedFile(root / name, "the file is missing") from None
    except NotADirectoryError:
        raise DamagedFile(root / name, "its folder is a file") from None
    with open(descriptor, "r+b" if flags & os.O_RDWR else "rb", buffering=0) as file:
        yield file


def size_of(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def read_bytes(root: Path, name: str, limit: int, size: int | None = None) -> bytes:
    """The first `size` bytes of a file, or all of them; at most `limit`."""
    with opened(root, name) as file:
        found = size_of(file)
        wanted = found if size is None else size
        if wanted > limit:
            raise DamagedFile(root / name, f"it has {wanted:,} bytes, more than {limit:,}")
        if found < wanted:
            raise DamagedFile(root / name, f"it has {found:,} bytes instead of {wanted:,}")
        content = bytearray()
        while len(content) < wanted:
            piece = file.read(wanted - len(content))
            if not piece:
                raise DamagedFile(root / name, "it became shorter while it was read")
            content += piece
    return bytes(content)


def read_json(root: Path, name: str, limit: int = LONGEST_JSON) -> Any:
    return parse_json(read_bytes(root, name, limit), root / name)


def parse_json(content: bytes, path: Path) -> Any:
    """The document in a file; `DamagedFile` unless it is JSON of a reasonable depth."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise DamagedFile(path, f"byte {error.start:,} is not UTF-8") from None
    if depth_of(text) > DEEPEST_JSON:
        raise DamagedFile(path, f"it is nested more than {DEEPEST_JSON} levels deep")
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except ValueError as error:
        # A number of more than 4,300 digits is also a ValueError.
        raise DamagedFile(path, f"it is not JSON ({str(error)[:100]})") from None


def read_signed_json(root: Path, name: str, limit: int = LONGEST_JSON) -> dict[str, Any]:
    """An object without its `checksum`, which must be that of the rest."""
    document = read_json(root, name, limit)
    if not isinstance(document, dict):
        raise DamagedFile(root / name, "it does not hold an object")
    if document.pop(CHECKSUM, None) != checksum(document):
        raise DamagedFile(root / name, "its values do not have its checksum")
    return document


def checksum(document: Mapping[str, Any]) -> str:
    return sha256(json.dumps(document, sort_keys=True).encode())


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def depth_of(text: str) -> int:
    """The deepest nesting of brackets; brackets in strings count too, which does no harm."""
    deepest = depth = 0
    for bracket in BRACKETS.finditer(text):
        depth += 1 if bracket[0] in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_file(root: Path, name: str, content: bytes | memoryview, offset: int = 0) -> None:
    """Write bytes at an offset, end the file there and wait until it is on disk."""
    descriptor = open_inside(root, name, CREATE)
    try:
        write_all(descriptor, content, offset)
        os.ftruncate(descriptor, offset + len(content))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes | memoryview, offset: int) -> None:
    rest = memoryview(content)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


def append_bytes(root: Path, name: str, content: bytes) -> None:
    """Add bytes to the end of a file, or none if that fails."""
    descriptor = open_inside(root, name, CREATE)
    try:
        before = os.fstat(descriptor).st_size
        try:
            write_all(descriptor, content, before)
        except OSError:
            os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> Path:
    """Write a file atomically: readers see the old content or the new, never a part."""
    check_replaceable(path)
    # The number of the process keeps two writers apart.
    partial = path.with_name(f"{PARTIAL}{os.getpid()}-{path.name}")
    try:
        write_file(path.parent, partial.name, content)
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync(path.parent)
    return path


def check_replaceable(path: Path) -> None:
    """Raise `UserError` if the path is there and no regular file."""
    with contextlib.suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise linked(path)
        if not stat.S_ISREG(mode):
            raise UserError(f"{path} is no regular file")


def make_folder(path: Path) -> None:
    """Create a folder and its parents, and wait until their names are on disk."""
    if not path.is_dir():
        if not path.parent.exists():
            make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def remove_partial_files(root: Path) -> None:
    """Delete what processes that no longer exist left of files that they replaced."""
    for path in root.glob(f"{PARTIAL}*-*"):
        owner = path.name.removeprefix(PARTIAL).partition("-")[0]
        if owner.isdigit() and not is_running(int(owner)):
            path.unlink(missing_ok=True)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def sync_file(root: Path, name: str) -> int:
    """Wait until a file is on disk; returns its size, 0 if there is none."""
    try:
        descriptor = open_inside(root, name)
    except FileNotFoundError:
        return 0
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def cut_file(root: Path, name: str, size: int) -> None:
    """Keep the first `size` bytes of a file; delete it if none remain."""
    try:
        descriptor = open_inside(root, name, os.O_WRONLY)
    except FileNotFoundError:
        return
    try:
        if os.fstat(descriptor).st_size > size:
            os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)
    if not size:
        (root / name).unlink()


def remove_tree(path: Path) -> None:
    """Delete a folder if it exists; it disappears under its name at once."""
    if path.is_symlink():
        raise linked(path)
    doomed = path
    if not path.name.startswith((PARTIAL, DELETING)):
        doomed = path.with_name(f"{DELETING}{path.name}")
        # Left by an earlier deletion that was killed.
        remove_tree(doomed)
        if path.exists():
            path.rename(doomed)
    if doomed.exists():
        shutil.rmtree(doomed)


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
