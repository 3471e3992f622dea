"""What trackers of services share: every line of metrics.jsonl arrives once, in order."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenworlds.core import files
from tokenworlds.core.files import DamagedFile
from tokenworlds.runs.events import read_metrics
from tokenworlds.training.callbacks import Event

FILE = "trackers.json"
LONGEST = 2**20


class Tracker(ABC):
    """A callback that sends log events to a service.

    trackers.json in the run folder keeps what `open` returned, so that a resumed run continues
    there, and how many events were sent: a run that goes back to a checkpoint repeats some.
    """

    name: str

    def __init__(self) -> None:
        self._key = ""
        self._sent = 0
        self._seen = 0

    @abstractmethod
    def open(self, event: Event, key: str) -> str:
        """Begin, or continue what has the key; returns its key."""

    @abstractmethod
    def send(self, values: Mapping[str, float | int], step: int) -> None: ...

    @abstractmethod
    def close(self, event: Event) -> None: ...

    def __call__(self, event: Event) -> None:
        if event.kind == "start":
            self._begin(event)
        elif event.kind in ("log", "evaluation") and self._key:
            self._track(event.values)
            self._keep(event.run)
        elif event.kind == "end" and self._key:
            if event.values:
                self.send(event.values, event.agent_steps)
            self.close(event)

    def _begin(self, event: Event) -> None:
        """Continue the tracker's own run, and send what a session that was killed did not."""
        known = read_records(event.run).get(self.name, {})
        self._key = self.open(event, str(known.get("key", "")))
        self._sent, self._seen = int(known.get("sent", 0)), 0
        if event.resumed:
            for values in read_metrics(event.run)[0]:
                self._track(values)
        self._keep(event.run)

    def _track(self, values: Mapping[str, float | int]) -> None:
        self._seen += 1
        if self._seen > self._sent:
            self.send(values, int(values["agent_steps"]))
            self._sent = self._seen

    def _keep(self, run: Path) -> None:
        records = {**read_records(run), self.name: {"key": self._key, "sent": self._sent}}
        files.replace_file(run / FILE, (json.dumps(records, indent=1) + "\n").encode())


def read_records(run: Path) -> dict[str, dict[str, Any]]:
    """What trackers keep in a run folder, by their names."""
    if not (run / FILE).exists():
        return {}
    document = files.read_json(run, FILE, LONGEST)
    if not isinstance(document, dict):
        raise DamagedFile(run / FILE, "it does not hold an object")
    return {name: record for name, record in document.items() if isinstance(record, dict)}
