"""Metrics of a run: metrics.jsonl, one JSON object per log event, and the same for TensorBoard."""

import hashlib
import itertools
import json
import math
import os
import socket
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import torch
from jaxtyping import Float
from torch import Tensor

from tokenworlds.core import files
from tokenworlds.runs.events import FILE, parse_lines, read_content


class Average:
    """Means of named values since the last log event."""

    def __init__(self) -> None:
        self._values: dict[str, list[Tensor | float]] = defaultdict(list)

    def add(self, values: Mapping[str, Tensor | float]) -> None:
        """Keep values; tensors stay on their device, so that nothing waits for it."""
        for name, value in values.items():
            self._values[name].append(value)

    def take(self) -> dict[str, float]:
        """Return the means and forget the values."""
        taken = {name: float(values.mean()) for name, values in self._read().items()}
        self._values.clear()
        return taken

    def state(self) -> dict[str, list[float]]:
        """The values since the last `take`, as JSON can hold them."""
        return {name: values.tolist() for name, values in self._read().items()}

    def restore(self, state: Mapping[str, list[float]]) -> None:
        self._values.clear()
        self._values.update({name: list(values) for name, values in state.items()})

    def _read(self) -> dict[str, Tensor]:
        counts = [len(values) for values in self._values.values()]
        numbers = to_cpu(list(itertools.chain.from_iterable(self._values.values())))
        return dict(zip(self._values, numbers.split(counts), strict=True))


def to_cpu(values: Sequence[Tensor | float]) -> Float[Tensor, " N"]:
    """Numbers and scalar tensors as one tensor, with one transfer from each device."""
    plain = [0.0 if isinstance(value, Tensor) else value for value in values]
    # NumPy scalars would make the tensor float64, and a resumed run reads back plain floats.
    numbers = torch.tensor(plain, dtype=torch.float32)
    by_device: dict[torch.device, dict[int, Tensor]] = defaultdict(dict)
    for index, value in enumerate(values):
        if isinstance(value, Tensor):
            by_device[value.device][index] = value.float()
    for found in by_device.values():
        numbers[list(found)] = torch.stack(list(found.values())).cpu()
    return numbers


class MetricsFile:
    """metrics.jsonl and its TensorBoard file. Only metrics.jsonl can be cut back.

    A checkpoint stores the size and hash of what metrics.jsonl held.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hash = hashlib.sha256()
        self._tensorboard = TensorBoardFile(folder / "tensorboard")

    def write(self, event: Mapping[str, Any]) -> None:
        finite = {name: value for name, value in event.items() if math.isfinite(value)}
        line = (json.dumps(finite) + "\n").encode()
        files.append_bytes(self.folder, FILE, line)
        self._hash.update(line)
        self._tensorboard.write(event, event["agent_steps"])

    def state(self) -> dict[str, Any]:
        """Wait until all events are on disk; returns their size and hash."""
        return {"size": files.sync_file(self.folder, FILE), "sha256": self._hash.hexdigest()}

    def clear(self) -> None:
        files.cut_file(self.folder, FILE, 0)
        self._hash = hashlib.sha256()

    def restore(self, state: Mapping[str, Any]) -> list[str]:
        """Cut back to a state; returns a note if the file does not hold what it did then.

        What can still be read is kept.
        """
        content = read_content(self.folder)[: state["size"]]
        notes = []
        if files.sha256(content) != state["sha256"]:
            _, whole = parse_lines(content)
            notes = [f"{self.folder / FILE} is not as it was written: {whole:,} bytes are kept"]
            content = content[:whole]
        files.cut_file(self.folder, FILE, len(content))
        self._hash = hashlib.sha256(content)
        return notes

    def close(self) -> None:
        self._tensorboard.close()


class NoMetrics(MetricsFile):
    """For ranks that write nothing."""

    def write(self, event: Mapping[str, Any]) -> None: ...

    def state(self) -> dict[str, Any]:
        return {}

    def clear(self) -> None: ...

    def restore(self, state: Mapping[str, Any]) -> list[str]:
        return []


def check_metrics(folder: Path, state: Mapping[str, Any]) -> list[str]:
    """A note if metrics.jsonl does not begin with what it held in a state."""
    if files.sha256(read_content(folder)[: state["size"]]) == state["sha256"]:
        return []
    return [f"{folder / FILE} is not as it was written"]


class TensorBoardFile:
    """One event file, opened at the first event.

    TensorBoard's own writer works in a thread, where a full disk ends in a traceback that no
    caller can catch. Its modules are slow to import, so only a run that logs imports them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: BinaryIO | None = None

    def write(self, event: Mapping[str, Any], step: int) -> None:
        """Write the numbers of an event."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        if self._file is None:
            self._open(step)
        values = [
            Summary.Value(tag=name, simple_value=value)
            for name, value in event.items()
            if isinstance(value, int | float)
        ]
        self._append(step=step, summary=Summary(value=values))

    def _open(self, step: int) -> None:
        """Open a file that makes TensorBoard discard this step and later ones of other files."""
        from tensorboard.compat.proto.event_pb2 import SessionLog

        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._file = open(self.folder / name, "wb", buffering=0)  # noqa: SIM115 (kept open)
        self._append(file_version="brain.Event:2")
        self._append(step=step, session_log=SessionLog(status=SessionLog.START))

    def _append(self, **content: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        event = Event(wall_time=time.time(), **content)
        RecordWriter(self._file).write(event.SerializeToString())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
