"""Replay on disk: the steps of each environment in append-only, checksummed chunk files.

Each environment has a folder with `frames-*.bin` and `steps-*.bin`, one pair per `chunk` steps.
The frames of the last chunk stay in memory, and so do all other fields of all steps; frames of
earlier chunks are read through read-only memory maps.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from numpy.typing import NDArray

from tokenworlds.core import files
from tokenworlds.core.errors import UserError
from tokenworlds.core.files import DamagedFile
from tokenworlds.core.group import ALONE, Group
from tokenworlds.core.types import ActionSpace, FrameShape

FORMAT = 2
CHUNK = 1024
"""Steps of one environment in a file."""
OPEN_MAPS = 128  # Each map of Python keeps a file descriptor open; macOS allows 256 in all.
KINDS = ("frames", "steps")


def record_type(action_space: ActionSpace) -> np.dtype[Any]:
    """The fields of a step except its frame, packed, little-endian."""
    action: Any = "<i8" if action_space.discrete else ("<f4", (action_space.size,))
    flags = [("first", "?"), ("terminated", "?"), ("truncated", "?")]
    return np.dtype([*flags, ("reward", "<f4"), ("action", action)])


class ReplayStore:
    """The steps of N environments of equal length.

    A new store is empty, whatever its folder holds: `restore` continues from a state, `clear`
    starts over. An `OSError` (a full disk) leaves the store unchanged, so a call can be repeated.
    """

    def __init__(
        self,
        folder: Path,
        *,
        frame_shape: FrameShape,
        action_space: ActionSpace,
        num_envs: int,
        chunk: int = CHUNK,
        group: Group = ALONE,
    ) -> None:
        """Of a group, which appends in lockstep, rank 0 writes; the others read its files."""
        self.group = group
        self.folder = folder
        self.frame_shape = frame_shape
        self.num_envs = num_envs
        self.chunk = chunk
        frames = (chunk, frame_shape.height, frame_shape.width, frame_shape.channels)
        self._tail = np.empty((num_envs, *frames), np.uint8)
        self._records = np.zeros((num_envs, chunk), record_type(action_space))
        self._files: dict[str, Extent] = {}
        self._map = lru_cache(OPEN_MAPS)(partial(map_chunk, folder, shape=frames))
        self.length = 0

    def __len__(self) -> int:
        """Steps of all environments together; `length` is that of each."""
        return self.num_envs * self.length

    @property
    def records(self) -> Shaped[np.ndarray, "N T"]:
        """All steps without frames; fields first, action, reward, terminated, truncated."""
        return self._records[:, : self.length]

    def append(
        self,
        frame: UInt8[np.ndarray, "N H W C"],
        first: Bool[np.ndarray, " N"],
        action: Int[np.ndarray, " N"] | Float[np.ndarray, "N A"],
        reward: Float[np.ndarray, " N"],
        terminated: Bool[np.ndarray, " N"],
        truncated: Bool[np.ndarray, " N"],
    ) -> None:
        """Add one step to each environment; if this raises, nothing was added."""
        if self.length and self.length % self.chunk == 0:
            self.flush()  # The tail is full and about to be overwritten.
        self._reserve(self.length + 1)
        self._tail[:, self.length % self.chunk] = frame
        now = self._records[:, self.length]
        now["first"], now["terminated"], now["truncated"] = first, terminated, truncated
        now["reward"], now["action"] = reward, action
        self.length += 1

    def read_frames(self, env: int, start: int, out: UInt8[np.ndarray, "T H W C"]) -> None:
        """Copy as many consecutive frames of an environment as `out` has room for."""
        if not (0 <= env < self.num_envs and 0 <= start <= self.length - len(out)):
            raise IndexError(
                f"steps {start}..{start + len(out) - 1} of environment {env}: replay holds "
                f"{self.length} steps of {self.num_envs} environments"
            )
        done = 0
        while done < len(out):
            chunk, row = divmod(start + done, self.chunk)
            count = min(len(out) - done, self.chunk - row)
            out[done : done + count] = self._frames(env, chunk)[row : row + count]
            done += count

    def flush(self) -> None:
        """Write new steps to disk and wait until they are there."""
        self.group.lead(self._flush)

    def _flush(self) -> None:
        chunk = self._last_chunk
        begin = chunk * self.chunk
        for env in range(self.num_envs):
            self._write("frames", env, chunk, self._tail[env, : self.length - begin])
            self._write("steps", env, chunk, self._records[env, begin : self.length])

    def state(self) -> dict[str, Any]:
        """Flush, and return as JSON what `restore` needs."""
        self.flush()
        extents = {name: [extent.size, extent.checksum] for name, extent in self._files.items()}
        return {"layout": self._layout, "length": self.length, "files": extents}

    def verify(self, state: Mapping[str, Any]) -> None:
        """Raise `DamagedFile` unless the files still hold everything in a state.

        The files may hold later steps as well. This method only reads.
        """
        for name, extent in self._extents(state).items():
            check(self.folder, name, extent)

    def _extents(self, state: Mapping[str, Any]) -> dict[str, "Extent"]:
        """The files of a state, if their names and sizes are those of its length."""
        match state:
            case {"layout": dict(layout), "length": int(length), "files": dict(found)}:
                pass
            case _:
                raise DamagedFile(self.folder, "its checkpoint describes no replay")
        if layout != self._layout:
            raise UserError(f"replay {self.folder} holds {layout}, not {self._layout}")
        chunks = -(-length // self.chunk)
        sizes = self._sizes(length) if len(found) == chunks * self.num_envs * len(KINDS) else None
        extents = {name: Extent(*extent) for name, extent in found.items()}
        if {name: extent.size for name, extent in extents.items()} != sizes:
            raise DamagedFile(self.folder, f"its checkpoint lists other files than {length} steps")
        return extents

    def _sizes(self, length: int) -> dict[str, int]:
        """The size of each file of a replay of this length."""
        steps = {"frames": self._tail[0, 0].nbytes, "steps": self._records.dtype.itemsize}
        return {
            file_name(kind, env, begin // self.chunk): min(self.chunk, length - begin) * steps[kind]
            for begin in range(0, length, self.chunk)
            for env in range(self.num_envs)
            for kind in KINDS
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Verify a state and return to it; later steps are deleted from disk."""
        self.group.lead(lambda: self._cut_back(state))
        self._load_all(state["length"])

    def _cut_back(self, state: Mapping[str, Any]) -> None:
        self.verify(state)
        self._truncate(self._extents(state))

    def load(self, state: Mapping[str, Any]) -> None:
        """Verify a state and load it for reading; later steps stay on disk.

        Another process may be writing to the folder.
        """
        self.verify(state)
        self._load_all(state["length"])

    def clear(self) -> None:
        """Delete all steps, on disk too."""
        self.group.lead(lambda: self._truncate({}))
        self.length = 0

    @property
    def _layout(self) -> dict[str, Any]:
        shape = self.frame_shape
        action = self._records.dtype["action"]
        return {
            "format": FORMAT,
            "num_envs": self.num_envs,
            "chunk": self.chunk,
            "frame": [shape.height, shape.width, shape.channels],
            "action": [action.base.str, *action.shape],
        }

    @property
    def _last_chunk(self) -> int:
        # A full chunk stays the last one, in memory, until the next step arrives.
        return max(self.length - 1, 0) // self.chunk

    def _frames(self, env: int, chunk: int) -> NDArray[np.uint8]:
        if chunk == self._last_chunk:
            tail: NDArray[np.uint8] = self._tail[env]
            return tail
        return self._map(file_name("frames", env, chunk))

    def _reserve(self, length: int) -> None:
        capacity = self._records.shape[1]
        if length > capacity:
            more = max(length - capacity, capacity)
            self._records = np.pad(self._records, ((0, 0), (0, more)))

    def _write(self, kind: str, env: int, chunk: int, data: NDArray[Any]) -> None:
        name = file_name(kind, env, chunk)
        known = self._files.get(name, Extent())
        if data.nbytes > known.size:
            self._files[name] = extend(self.folder, name, known, data)

    def _truncate(self, extents: dict[str, "Extent"]) -> None:
        self._map.cache_clear()  # A map must not outlive the bytes that it shows.
        for kind in KINDS:
            for path in sorted(self.folder.glob(f"env-*/{kind}-*.bin")):
                name = path.relative_to(self.folder).as_posix()
                files.cut_file(self.folder, name, extents.get(name, Extent()).size)
        self._files = extents

    def _load_all(self, length: int) -> None:
        self.length = length
        self._reserve(length)
        for env in range(self.num_envs):
            self._load(env)

    def _load(self, env: int) -> None:
        dtype = self._records.dtype
        for begin in range(0, self.length, self.chunk):
            count = min(self.chunk, self.length - begin)
            name, size = file_name("steps", env, begin // self.chunk), count * dtype.itemsize
            content = files.read_bytes(self.folder, name, size, size)
            self._records[env, begin : begin + count] = np.frombuffer(content, dtype)
        if self.length:
            name = file_name("frames", env, self._last_chunk)
            tail = self._tail[env, : self.length - self._last_chunk * self.chunk]
            # The file may have grown meanwhile.
            content = files.read_bytes(self.folder, name, tail.size, tail.size)
            tail[:] = np.frombuffer(content, np.uint8).reshape(tail.shape)


def file_name(kind: str, env: int, chunk: int) -> str:
    return f"env-{env:03d}/{kind}-{chunk:06d}.bin"


def map_chunk(folder: Path, name: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The frames of a complete chunk, read from disk on access."""
    with files.opened(folder, name) as file:
        return np.asarray(np.memmap(file, np.uint8, "r", shape=shape))


@dataclass(frozen=True, slots=True)
class Extent:
    """The valid part of a file: its first `size` bytes, with their CRC-32."""

    size: int = 0
    checksum: int = 0


def extend(folder: Path, name: str, known: Extent, data: NDArray[Any]) -> Extent:
    """Write an array to a file that already holds its first bytes, the known ones.

    Bytes after the known ones, from an earlier attempt that failed, are overwritten.
    """
    fresh = data.view(np.uint8).ravel()[known.size :].data
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    files.write_file(folder, name, fresh, known.size)
    if known.size == 0:  # The file, and perhaps its folder, may be new.
        files.sync((folder / name).parent)
        files.sync(folder)
    return Extent(known.size + len(fresh), zlib.crc32(fresh, known.checksum))


def check(folder: Path, name: str, extent: Extent) -> None:
    """Raise `DamagedFile` unless the file begins with the bytes of this extent."""
    found = zlib.crc32(files.read_bytes(folder, name, extent.size, extent.size))
    if found != extent.checksum:
        reason = f"its checksum is {found:08x} instead of {extent.checksum:08x}"
        raise DamagedFile(folder / name, reason)
