"""What a run tells of itself: one JSON object per log event, and the same for TensorBoard."""

import json
import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


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
        taken = {name: mean_of(values) for name, values in self._values.items()}
        self._values.clear()
        return taken


def mean_of(values: list[Tensor | float]) -> float:
    """The mean of numbers, some of them tensors."""
    return float(torch.stack([torch.as_tensor(value).float().cpu() for value in values]).mean())


class MetricsFile:
    """metrics.jsonl, appended to and cut back to where a checkpoint was taken."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "metrics.jsonl"
        self._board_folder = folder / "tensorboard"
        self._board: Any = None

    def write(self, event: Mapping[str, Any]) -> None:
        """Add an event."""
        with open(self.path, "a") as file:
            file.write(json.dumps(event) + "\n")
        self._write_board(event)

    def _write_board(self, event: Mapping[str, Any]) -> None:
        step = event["agent_steps"]
        if self._board is None:
            # Imported here because it takes a second, which no other command should wait for.
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(self._board_folder), purge_step=step)  # type: ignore[no-untyped-call]
        for name, value in event.items():
            if isinstance(value, int | float):
                self._board.add_scalar(name, value, step)
        self._board.flush()

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def cut(self, size: int) -> None:
        """Forget what came after."""
        if self.size > size:
            os.truncate(self.path, size)

    def close(self) -> None:
        """Finish TensorBoard's file."""
        if self._board is not None:
            self._board.close()


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """All events of a run."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]
