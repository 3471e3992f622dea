"""Windows of consecutive steps: where they fit, and reading them as segments."""

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Int

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import Segment
from tokenworlds.replay.store import ReplayStore


@dataclass(frozen=True, slots=True)
class Windows:
    """All windows of a length that fit into environments of this many steps; there is at least one.

    `first` says which steps open an episode; without it every stream is one.
    """

    num_envs: int
    steps: int
    length: int
    first: Bool[np.ndarray, "N T"] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.length <= self.steps:
            raise UserError(
                f"a segment of {self.length} steps does not fit: each of the {self.num_envs} "
                f"environments in replay holds {self.steps}; collect more first, or ask for less"
            )

    @classmethod
    def of(cls, store: ReplayStore, length: int) -> "Windows":
        """The windows of a store."""
        return cls(store.num_envs, store.length, length, store.records["first"])

    @property
    def starts(self) -> int:
        """Windows of each stream."""
        return self.steps - self.length + 1

    def __len__(self) -> int:
        return self.num_envs * self.starts

    def opens(self, since: int) -> Bool[np.ndarray, "N T"]:
        """Which steps from a time on open an episode; the first of a stream always does."""
        found = np.zeros((self.num_envs, self.steps - since), np.bool_)
        if self.first is not None:
            found[:] = self.first[:, since : self.steps]
        if since == 0:
            found[:, 0] = True
        return found

    def locate(self, index: Int[np.ndarray, " B"]) -> Int[np.ndarray, "B 2"]:
        """Stream and time at which numbered windows start; the numbers run along each stream."""
        return np.stack(np.divmod(index, self.starts), axis=-1)


def gather(
    store: ReplayStore, starts: Int[np.ndarray, "B 2"], length: int, device: str = "cpu"
) -> Segment:
    """The windows that start at these (stream, time), read from a store and sent to a device.

    `first` is true to the episode: a model starts at a window's first step from its initial carry.
    Frames are bytes until they are there, and go to CUDA from pinned memory: nobody waits for them.
    """
    pinned = device.startswith("cuda")
    shape = store.frame_shape
    size = (len(starts), length, shape.height, shape.width, shape.channels)
    frame = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    for row in np.lexsort(starts.T[::-1]):  # Neighbours on disk are read together.
        stream, time = starts[row].tolist()
        store.read_frames(stream, time, frame[row].numpy())
    records = store.records[starts[:, :1], starts[:, 1:] + np.arange(length)]
    fields = {name: torch.from_numpy(records[name].copy()) for name in records.dtype.names or ()}
    fields["mask"] = torch.ones(records.shape, dtype=torch.bool)
    if pinned:
        fields = {name: field.pin_memory() for name, field in fields.items()}
    return Segment(frame=frame, **fields).to(torch.device(device))
