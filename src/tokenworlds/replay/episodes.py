"""Where the episodes of growing environments begin and end."""

import numpy as np
from jaxtyping import Int

from tokenworlds.replay.segments import Windows

OPEN = np.iinfo(np.int64).max
"""The end of an episode that goes on."""


class Episodes:
    """Episodes of all environments in the order they began: number, environment, begin, end.

    Only steps that were not looked at before are looked at, and later ones change no number.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.stream = np.zeros(0, np.int64)
        self.begin = np.zeros(0, np.int64)
        self._end = np.zeros(0, np.int64)
        self._latest: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def end(self) -> Int[np.ndarray, "*rest"]:
        """The time after the last step of each; that of one which goes on, as things stand."""
        return np.minimum(self._end, self.steps)

    def grow(self, windows: Windows) -> None:
        """Find what has begun since the last time."""
        time, stream = np.nonzero(windows.opens(self.steps).T)
        known, time = len(self), time + self.steps
        self.stream = np.concatenate([self.stream, stream])
        self.begin = np.concatenate([self.begin, time])
        self._end = np.concatenate([self._end, np.full(len(time), OPEN)])
        for number in range(known, len(self)):
            row = int(self.stream[number])
            if row in self._latest:
                self._end[self._latest[row]] = self.begin[number]
            self._latest[row] = number
        self.steps = windows.steps
