"""Replay on disk: one append-only stream of steps per environment, in checksummed chunks.

Each stream is a folder of `frames-*.bin` and `steps-*.bin`, a pair for every `chunk` steps. What
each step holds apart from its frame stays in memory, and so do the frames of the last chunk;
frames of earlier chunks are read through read-only memory maps.
"""

from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from numpy.typing import NDArray

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.replay.files import DamagedReplay, Extent, check, cut, extend

__all__ = ["DamagedReplay", "ReplayStore"]

FORMAT = 1
OPEN_MAPS = 128  # Python's mmap keeps a file descriptor each, and macOS grants 256 in all.
KINDS = ("frames", "steps")


def record_type(action_space: ActionSpace) -> np.dtype[Any]:
    """The bytes of a step without its frame, packed, little-endian."""
    action: Any = "<i8" if action_space.discrete else ("<f4", (action_space.size,))
    flags = [("first", "?"), ("terminated", "?"), ("truncated", "?")]
    return np.dtype([*flags, ("reward", "<f4"), ("action", action)])


def map_chunk(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The frames of a complete chunk, left on disk until they are looked at."""
    return np.asarray(np.memmap(path, np.uint8, "r", shape=shape))


class ReplayStore:
    """The steps of N parallel environments of equal length.

    A new store is empty whatever its folder holds: `restore` goes on from a state, `clear` begins
    anew. An `OSError` (a full disk) leaves the store as it was; the call may be repeated.
    """

    def __init__(
        self,
        folder: Path,
        *,
        frame_shape: FrameShape,
        action_space: ActionSpace,
        num_envs: int,
        chunk: int = 1024,
    ) -> None:
        self.folder = folder
        self.frame_shape = frame_shape
        self.num_envs = num_envs
        self.chunk = chunk
        frames = (chunk, frame_shape.height, frame_shape.width, frame_shape.channels)
        self._tail = np.empty((num_envs, *frames), np.uint8)
        self._records = np.zeros((num_envs, chunk), record_type(action_space))
        self._files: dict[str, Extent] = {}
        self._map = lru_cache(OPEN_MAPS)(partial(map_chunk, shape=frames))
        self.length = 0

    def __len__(self) -> int:
        return self.num_envs * self.length

    @property
    def steps(self) -> int:
        """Steps of all environments together; `length` is that of each."""
        return len(self)

    @property
    def records(self) -> Shaped[np.ndarray, "N T"]:
        """All steps without their frames: fields first, action, reward, ending, truncation."""
        return self._records[:, : self.length]

    def append(
        self,
        frames: UInt8[np.ndarray, "N H W C"],
        first: Bool[np.ndarray, " N"],
        actions: Int[np.ndarray, " N"] | Float[np.ndarray, "N A"],
        rewards: Float[np.ndarray, " N"],
        terminations: Bool[np.ndarray, " N"],
        truncations: Bool[np.ndarray, " N"],
    ) -> None:
        """Add one step to every stream; if this raises, nothing was added."""
        if self.length and self.length % self.chunk == 0:
            self.flush()  # The tail is full and about to be overwritten.
        self._reserve(self.length + 1)
        self._tail[:, self.length % self.chunk] = frames
        now = self._records[:, self.length]
        now["first"], now["terminated"], now["truncated"] = first, terminations, truncations
        now["reward"], now["action"] = rewards, actions
        self.length += 1

    def read_frames(self, stream: int, start: int, out: UInt8[np.ndarray, "T H W C"]) -> None:
        """Copy consecutive frames of a stream into an array, as many as it has room for."""
        if not (0 <= stream < self.num_envs and 0 <= start <= self.length - len(out)):
            raise IndexError(f"stream {stream} has no {len(out)} steps from {start} on")
        done = 0
        while done < len(out):
            chunk, row = divmod(start + done, self.chunk)
            count = min(len(out) - done, self.chunk - row)
            out[done : done + count] = self._frames(stream, chunk)[row : row + count]
            done += count

    def flush(self) -> None:
        """Write to disk what is not there yet, and wait for it."""
        chunk = self._last_chunk
        begin = chunk * self.chunk
        for stream in range(self.num_envs):
            self._write("frames", stream, chunk, self._tail[stream, : self.length - begin])
            self._write("steps", stream, chunk, self._records[stream, begin : self.length])

    def state(self) -> dict[str, Any]:
        """Flush, and describe what `restore` needs to come back here, as JSON can hold it."""
        self.flush()
        files = {name: [extent.size, extent.checksum] for name, extent in self._files.items()}
        return {"layout": self._layout, "length": self.length, "files": files}

    def verify(self, state: Mapping[str, Any]) -> None:
        """Raise `DamagedReplay` unless the files still hold all that a state speaks of.

        Later steps may have been written since. Only reads.
        """
        if state["layout"] != self._layout:
            raise UserError(f"replay {self.folder} holds {state['layout']}, not {self._layout}")
        for name, extent in extents(state).items():
            check(self.folder / name, extent)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Verify a state and go back to it: steps written since are cut off."""
        self.verify(state)
        self._cut(extents(state))
        self._load_all(state["length"])

    def look_back(self, state: Mapping[str, Any]) -> None:
        """Verify a state and go back to it only to read: steps written since stay on disk.

        The folder may be one that another process writes to.
        """
        self.verify(state)
        self._load_all(state["length"])

    def clear(self) -> None:
        """Forget all steps, on disk too."""
        self._cut({})
        self.length = 0

    @property
    def _layout(self) -> dict[str, Any]:
        shape = self.frame_shape
        return {
            "format": FORMAT,
            "num_envs": self.num_envs,
            "chunk": self.chunk,
            "frame": [shape.height, shape.width, shape.channels],
            "action": [
                self._records.dtype["action"].base.str,
                *self._records.dtype["action"].shape,
            ],
        }

    @property
    def _last_chunk(self) -> int:
        # A chunk stays the last one, in memory, until the step after it comes.
        return max(self.length - 1, 0) // self.chunk

    def _frames(self, stream: int, chunk: int) -> NDArray[np.uint8]:
        if chunk == self._last_chunk:
            tail: NDArray[np.uint8] = self._tail[stream]
            return tail
        return self._map(self.folder / file_name("frames", stream, chunk))

    def _reserve(self, length: int) -> None:
        capacity = self._records.shape[1]
        if length > capacity:
            more = max(length - capacity, capacity)
            self._records = np.pad(self._records, ((0, 0), (0, more)))

    def _write(self, kind: str, stream: int, chunk: int, data: NDArray[Any]) -> None:
        name = file_name(kind, stream, chunk)
        known = self._files.get(name, Extent())
        if data.nbytes > known.size:
            self._files[name] = extend(self.folder / name, known, data)

    def _cut(self, files: dict[str, Extent]) -> None:
        self._map.cache_clear()  # A map must not outlive the bytes it shows.
        for kind in KINDS:
            for path in sorted(self.folder.glob(f"stream-*/{kind}-*.bin")):
                name = path.relative_to(self.folder).as_posix()
                cut(path, files.get(name, Extent()).size)
        self._files = files

    def _load_all(self, length: int) -> None:
        self.length = length
        self._reserve(length)
        for stream in range(self.num_envs):
            self._load(stream)

    def _load(self, stream: int) -> None:
        for begin in range(0, self.length, self.chunk):
            count = min(self.chunk, self.length - begin)
            path = self.folder / file_name("steps", stream, begin // self.chunk)
            loaded = np.fromfile(path, self._records.dtype, count)
            self._records[stream, begin : begin + count] = loaded
        if self.length:
            path = self.folder / file_name("frames", stream, self._last_chunk)
            tail = self._tail[stream, : self.length - self._last_chunk * self.chunk]
            # The file may have grown since.
            tail[:] = np.fromfile(path, np.uint8, tail.size).reshape(tail.shape)


def file_name(kind: str, stream: int, chunk: int) -> str:
    """Where a chunk lies inside the folder of its store."""
    return f"stream-{stream:03d}/{kind}-{chunk:06d}.bin"


def extents(state: Mapping[str, Any]) -> dict[str, Extent]:
    """The files of a state."""
    return {name: Extent(*extent) for name, extent in state["files"].items()}
