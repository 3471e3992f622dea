"""Changes of a run after it began, as run.json records them.

An entry of "history" holds the command, the agent steps at that time, and what "run" was before.
A checkpoint keeps a copy of run.json, so one that was written before a change belongs to the run
if its copy equals run.json with the change undone.
"""

from collections.abc import Iterator, Mapping
from typing import Any

HISTORY = "history"
MOST = 1000
"""A run folder may come from anybody: a longer history is not read."""


def changed(
    document: Mapping[str, Any], run: Mapping[str, Any], command: str, agent_steps: int
) -> dict[str, Any]:
    """The content of run.json with another description of the run, and an entry about it."""
    entry = {"command": command, "agent_steps": agent_steps, "run": document["run"]}
    return {**document, "run": dict(run), HISTORY: [*entries(document), entry]}


def versions(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The content of run.json as it is, then before each of its changes, the newest first."""
    present = dict(document)
    yield present
    while before := entries(present):
        present = {**present, "run": before[-1].get("run"), HISTORY: before[:-1]}
        if not present[HISTORY]:
            del present[HISTORY]
        yield present


def entries(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries of a document; none if they do not have the form of entries."""
    found = document.get(HISTORY, [])
    if not isinstance(found, list) or len(found) > MOST:
        return []
    return list(found) if all(isinstance(entry, dict) for entry in found) else []
