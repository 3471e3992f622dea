"""Scalars for TensorBoard, written here and now.

TensorBoard's own writer works in a thread, where a full disk ends in a traceback that no caller
can catch.
"""

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO


class Board:
    """One file of events; it is begun at the first event."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: BinaryIO | None = None

    def write(self, event: Mapping[str, Any], step: int) -> None:
        """Add the numbers of an event."""
        # Imported here because it takes a while, which no other command should wait for.
        from tensorboard.compat.proto.summary_pb2 import Summary

        if self._file is None:
            self._begin(step)
        values = [
            Summary.Value(tag=name, simple_value=value)
            for name, value in event.items()
            if isinstance(value, int | float)
        ]
        self._append(step=step, summary=Summary(value=values))

    def _begin(self, step: int) -> None:
        """Open a file that says: forget what other files say of this step and later ones."""
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
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
