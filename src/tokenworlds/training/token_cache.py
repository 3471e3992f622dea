"""Codes of the frames in replay, each worked out once for as long as their tokenizer stands still.

An epoch of IRIS shows its tokens to the sequence model and to the policy, hundreds of batches from
the same replay, while the tokenizer that writes them is not touched.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tokenworlds.core.types import Segment


@runtime_checkable
class Coding(Protocol):
    """A world whose codes change with one of its learners, and with nothing else."""

    tokens: int
    """How many codes a frame has."""
    coder: ClassVar[str]
    """The name of that learner."""
    codes_look_back: ClassVar[int]
    """How many steps before a frame its codes depend on."""

    def codes_of(self, segment: Segment, wanted: Bool[Tensor, "B T"]) -> Int[Tensor, "n K"]:
        """The codes of some frames of a segment, in the order of its rows."""
        ...


class KnownCodes:
    """Remembers codes by stream and time; a run that is taken up knows what it knew."""

    def __init__(self, world: Coding, device: torch.device) -> None:
        self.world = world
        self.device = device
        self.forget()

    def forget(self) -> None:
        """What holds no longer, because the tokenizer has learned."""
        self._known = np.zeros((0, 0), np.bool_)
        size = (0, 0, self.world.tokens)
        self._codes = torch.zeros(size, dtype=torch.int32, device=self.device)

    def complete(self, segment: Segment, starts: Int[np.ndarray, "B 2"]) -> Segment:
        """The segment that starts at these (stream, time) with its codes; no frame is coded twice.

        All of its steps are coded, read or not: in an epoch others will ask for them. Where a code
        takes frames from before the segment it is -1, unless another segment told it.
        """
        time = starts[:, 1:] + np.arange(segment.first.shape[1])
        stream = np.broadcast_to(starts[:, :1], time.shape)
        self._make_room(int(stream.max()) + 1, int(time.max()) + 1)
        wanted = self._unknown(stream, time)
        if wanted.any():
            self._learn(stream[wanted], time[wanted], segment, wanted)
        return replace(segment, codes=self._codes[self._places(stream, time)].long())

    def _unknown(
        self, stream: Int[np.ndarray, "B T"], time: Int[np.ndarray, "B T"]
    ) -> Bool[np.ndarray, "B T"]:
        """The frames to be coded, each at one of its places in the segment."""
        wanted: NDArray[np.bool_] = ~self._known[stream, time]
        wanted[:, : self.world.codes_look_back] = False
        rows, steps = np.nonzero(wanted)
        places = np.stack([stream[rows, steps], time[rows, steps]])
        _, once = np.unique(places, axis=1, return_index=True)
        chosen = np.zeros_like(wanted)
        chosen[rows[once], steps[once]] = True
        return chosen

    def _learn(
        self,
        stream: Int[np.ndarray, " n"],
        time: Int[np.ndarray, " n"],
        segment: Segment,
        wanted: Bool[np.ndarray, "B T"],
    ) -> None:
        codes = self.world.codes_of(segment, torch.from_numpy(wanted).to(self.device))
        self._codes[self._places(stream, time)] = codes.to(self._codes.dtype)
        self._known[stream, time] = True

    def _places(
        self, stream: Int[np.ndarray, "*shape"], time: Int[np.ndarray, "*shape"]
    ) -> tuple[Int[Tensor, "*shape"], ...]:
        return tuple(torch.tensor(each, device=self.device) for each in (stream, time))

    def _make_room(self, num_envs: int, steps: int) -> None:
        """For places up to these; replay grows."""
        rows, columns = (
            max(wanted - has, 0)
            for wanted, has in zip((num_envs, steps), self._known.shape, strict=True)
        )
        if rows or columns:
            room = (0, 0, 0, columns, 0, rows)
            self._known = np.pad(self._known, ((0, rows), (0, columns)))
            self._codes = functional.pad(self._codes, room, value=-1)

    def state(self) -> dict[str, Tensor]:
        """All that is known; -1 stands for what is not."""
        return {"codes": self._codes}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Know what a state knows, and nothing else."""
        self._codes = state["codes"].to(self.device, copy=True)
        self._known = (state["codes"] >= 0).any(-1).cpu().numpy()
