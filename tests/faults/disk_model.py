"""A disk that forgets: what is left of a log of operations after a power loss.

The content of a file is durable once the file was synced, and a name in a folder once the folder
was synced. Of later changes, any may have reached the disk, each by itself.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from interposition import Operation

Keep = Callable[[], bool]
"""Whether the next change that was not synced survives."""


@dataclass
class File:
    synced: bytes = b""
    pending: list[Operation] = field(default_factory=list)

    def content(self, keep: Keep) -> bytes:
        """The synced content with the pending changes that are kept."""
        found = bytearray(self.synced)
        for change in self.pending:
            if keep():
                change_bytes(found, change)
        return bytes(found)

    def sync(self) -> None:
        self.synced, self.pending = self.content(always), []


@dataclass
class Folder:
    synced: dict[str, "File | Folder"] = field(default_factory=dict)
    pending: list[dict[str, "File | Folder | None"]] = field(default_factory=list)
    """Changes of entries, each atomic; None removes one."""

    def entries(self, keep: Keep) -> dict[str, "File | Folder"]:
        found: dict[str, File | Folder | None] = dict(self.synced)
        for change in self.pending:
            if keep():
                found |= change
        return {name: node for name, node in found.items() if node is not None}

    def sync(self) -> None:
        self.synced, self.pending = self.entries(always), []


class Disk:
    """Applies operations; `survivors` writes what a power loss leaves."""

    def __init__(self) -> None:
        self.root = Folder()

    def load(self, folder: Path) -> None:
        """Take up a folder that is entirely on disk."""
        self.root = durable(folder)

    def apply(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            getattr(self, f"_{operation.kind}")(operation)

    def survivors(self, folder: Path, keep: Keep) -> None:
        write(self.root, folder, keep)

    def _find(self, path: str) -> File | Folder | None:
        node: File | Folder | None = self.root
        for name in PurePosixPath(path).parts:
            node = node.entries(always).get(name) if isinstance(node, Folder) else None
        return node

    def _change(self, path: str, node: File | Folder | None) -> None:
        parent = self._find(str(PurePosixPath(path).parent))
        assert isinstance(parent, Folder), path
        parent.pending.append({PurePosixPath(path).name: node})

    def _create(self, operation: Operation) -> None:
        self._change(operation.path, File())

    def _mkdir(self, operation: Operation) -> None:
        self._change(operation.path, Folder())

    def _unlink(self, operation: Operation) -> None:
        self._change(operation.path, None)

    _rmdir = _unlink

    def _rename(self, operation: Operation) -> None:
        old, new = PurePosixPath(operation.path), PurePosixPath(operation.target)
        node, parent = self._find(operation.path), self._find(str(old.parent))
        # A rename between folders would be two changes, and no run makes one.
        assert old.parent == new.parent, operation
        assert isinstance(parent, Folder), operation
        parent.pending.append({old.name: None, new.name: node})

    def _write(self, operation: Operation) -> None:
        node = self._find(operation.path)
        assert isinstance(node, File), operation
        assert operation.offset >= 0, operation
        node.pending.append(operation)

    _truncate = _write

    def _fsync(self, operation: Operation) -> None:
        node = self._find(operation.path)
        assert node is not None, operation
        node.sync()

    def _mark(self, operation: Operation) -> None:
        """Nothing changes."""


def change_bytes(content: bytearray, change: Operation) -> None:
    if change.kind == "truncate":
        del content[change.offset :]
    end = change.offset + len(change.content)
    content.extend(bytes(max(0, end - len(content))))
    content[change.offset : end] = change.content


def durable(folder: Path) -> Folder:
    """A folder with everything below it, as on a disk that was synced."""
    nodes: dict[str, File | Folder] = {
        path.name: durable(path) if path.is_dir() else File(path.read_bytes())
        for path in folder.iterdir()
    }
    return Folder(nodes)


def write(node: Folder, folder: Path, keep: Keep) -> None:
    for name, entry in node.entries(keep).items():
        if isinstance(entry, File):
            (folder / name).write_bytes(entry.content(keep))
        else:
            (folder / name).mkdir()
            write(entry, folder / name, keep)


def always() -> bool:
    return True


def never() -> bool:
    return False
