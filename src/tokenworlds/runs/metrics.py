"""What a run tells of itself: one JSON object per log event, and the same for TensorBoard."""

import itertools
import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tokenworlds.runs.tensorboard import Board


class Average:
    """Means of named values since the last time they were taken."""

    def __init__(self) -> None:
        self._values: dict[str, list[Tensor | float]] = defaultdict(list)

    def add(self, values: Mapping[str, Tensor | float]) -> None:
        """Take in values; tensors are kept as they are, so that nothing waits for a device."""
        for name, value in values.items():
            self._values[name].append(value)

    def take(self) -> dict[str, float]:
        """The means, and begin anew."""
        taken = {name: float(values.mean()) for name, values in self._read().items()}
        self._values.clear()
        return taken

    def state(self) -> dict[str, list[float]]:
        """What has not been taken yet; a resumed run then tells the same as one never stopped."""
        return {name: values.tolist() for name, values in self._read().items()}

    def restore(self, state: Mapping[str, list[float]]) -> None:
        """Take over what `state` returned."""
        self._values.clear()
        self._values.update({name: list(values) for name, values in state.items()})

    def _read(self) -> dict[str, Tensor]:
        counts = [len(values) for values in self._values.values()]
        numbers = to_processor(list(itertools.chain.from_iterable(self._values.values())))
        return dict(zip(self._values, numbers.split(counts), strict=True))


def to_processor(values: Sequence[Tensor | float]) -> Float[Tensor, " N"]:
    """Numbers, some of them tensors, on the processor; each device is waited for once."""
    numbers = torch.tensor([0.0 if isinstance(value, Tensor) else value for value in values])
    places: dict[torch.device, dict[int, Tensor]] = defaultdict(dict)
    for place, value in enumerate(values):
        if isinstance(value, Tensor):
            places[value.device][place] = value.float()
    for found in places.values():
        numbers[list(found)] = torch.stack(list(found.values())).cpu()
    return numbers


class MetricsFile:
    """metrics.jsonl, appended to and cut back to where a checkpoint was taken."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "metrics.jsonl"
        self._board = Board(folder / "tensorboard")

    def write(self, event: Mapping[str, Any]) -> None:
        """Add an event."""
        with open(self.path, "a") as file:
            file.write(json.dumps(event) + "\n")
        self._board.write(event, event["agent_steps"])

    def sync(self) -> int:
        """Wait until all events are on disk; returns how many bytes they take."""
        if not self.path.exists():
            return 0
        with open(self.path, "ab") as file:
            os.fsync(file.fileno())
            return file.tell()

    def cut(self, size: int) -> None:
        """Forget what came after."""
        if self.path.exists() and self.path.stat().st_size > size:
            os.truncate(self.path, size)

    def close(self) -> None:
        """Finish TensorBoard's file."""
        self._board.close()


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """All events of a run; a last line that is still being written does not count."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]
