"""Windows of consecutive steps in replay, and reading them as segments."""

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Int

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import Segment
from tokenworlds.replay.store import ReplayStore


@dataclass(frozen=True, slots=True)
class Windows:
    """All windows of `length` steps in `num_envs` environments of `steps` steps; at least one.

    `first` marks the steps that open an episode; without it each environment has one episode.
    """

    num_envs: int
    steps: int
    length: int
    first: Bool[np.ndarray, "N T"] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.length <= self.steps:
            raise UserError(
                f"a segment of {self.length} steps does not fit into replay, which holds "
                f"{self.steps} steps of each of {self.num_envs} environments: choose a length "
                f"between 1 and {self.steps}, or collect more steps first"
            )

    @classmethod
    def of(cls, store: ReplayStore, length: int) -> "Windows":
        return cls(store.num_envs, store.length, length, store.records["first"])

    @property
    def starts(self) -> int:
        """The number of windows in each environment."""
        return self.steps - self.length + 1

    def __len__(self) -> int:
        return self.num_envs * self.starts

    def opens(self, since: int) -> Bool[np.ndarray, "N T"]:
        """Which steps from `since` on open an episode; the first step of an environment does."""
        found = np.zeros((self.num_envs, self.steps - since), np.bool_)
        if self.first is not None:
            found[:] = self.first[:, since : self.steps]
        if since == 0:
            found[:, 0] = True
        return found

    def locate(self, index: Int[np.ndarray, " B"]) -> Int[np.ndarray, "B 2"]:
        """Environment and time at which windows start, numbered env by env."""
        return np.stack(np.divmod(index, self.starts), axis=-1)


def gather(
    store: ReplayStore, starts: Int[np.ndarray, "B 2"], length: int, device: str = "cpu"
) -> Segment:
    """Read the windows that start at (env, time) and send them to a device.

    `first` marks only real starts of episodes; a model starts every window from its initial carry.
    Frames are sent as bytes, to CUDA asynchronously from pinned memory.
    """
    pinned = device.startswith("cuda")
    shape = store.frame_shape
    size = (len(starts), length, shape.height, shape.width, shape.channels)
    frame = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    for row in np.lexsort(starts.T[::-1]):  # In the order of the disk.
        env, time = starts[row].tolist()
        store.read_frames(env, time, frame[row].numpy())
    records = store.records[starts[:, :1], starts[:, 1:] + np.arange(length)]
    fields = {name: torch.from_numpy(records[name].copy()) for name in records.dtype.names or ()}
    fields["mask"] = torch.ones(records.shape, dtype=torch.bool)
    if pinned:
        fields = {name: field.pin_memory() for name, field in fields.items()}
    return Segment(frame=frame, **fields).to(torch.device(device))
