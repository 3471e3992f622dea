"""The runs below a folder, as the page shows them. Requests name runs; no path comes from one."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenworlds.core.errors import UserError
from tokenworlds.evaluation.comparison.description import Description
from tokenworlds.evaluation.comparison.listing import CHECKPOINT, Listed, find_runs, list_run
from tokenworlds.published import lookup
from tokenworlds.runs import events
from tokenworlds.sweeps.logs import error_in
from tokenworlds.sweeps.plan import LOGS

FRESH = 1.0
"""Seconds for which a listing is reused: every open page asks about once a second."""
SAVED_AGENT = "config.json"
NO_MODEL = "tokenworlds.worlds.real:Real.Config"
"""The world of an agent that does not dream, as run.json names it."""


class UnknownRun(UserError):
    """A request names a run that is not, or no longer, below the folder."""


class Catalogue:
    """Runs by name, which is the path below the folder; "." is the folder itself.

    A folder of saved agents has no run of its own: "." is then the agent called `start`.
    """

    def __init__(
        self, root: Path, clock: Callable[[], float] = time.monotonic, start: str = ""
    ) -> None:
        self.root, self._clock, self.start = root, clock, start
        self._listed: tuple[float, list[dict[str, Any]]] | None = None

    def paths(self) -> dict[str, Path]:
        if not self.root.is_dir():
            return {}
        found = {str(path.relative_to(self.root)): path for path in find_runs(self.root)}
        if (self.root / SAVED_AGENT).is_file():
            found["."] = self.root
        if self.start:
            found |= {path.name: path for path in sorted(self.root.iterdir()) if is_saved(path)}
            found["."] = found[self.start]
        return found

    def agents(self) -> list[str]:
        """The saved agents that a page lets the user choose from."""
        return [name for name in self.paths() if name != "."] if self.start else []

    def path(self, name: str) -> Path:
        """The folder of a run; `UnknownRun` unless it is there now."""
        found = self.paths().get(name)
        if found is None:
            raise UnknownRun(f"there is no run {name[:100]!r} below {self.root}")
        return found

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run."""
        now = self._clock()
        if self._listed is None or now - self._listed[0] > FRESH:
            paths = {name: path for name, path in self.paths().items() if not is_saved(path)}
            self._listed = (now, [row(name, path) for name, path in paths.items()])
        return self._listed[1]


def is_saved(path: Path) -> bool:
    """Whether the folder holds an agent that `Agent.save` wrote, and no run."""
    return (path / SAVED_AGENT).is_file()


def row(name: str, path: Path) -> dict[str, Any]:
    listed = list_run(path)
    about, score = listed.description, listed.score
    problem = listed.problem
    failure = error_in(path.parent / LOGS / f"{path.name}.log")
    failed = listed.state == "stopped" and bool(failure)
    speed = steps_per_second(listed) if listed.state == "running" else None
    return {
        "name": name,
        "title": path.name if name == "." else name,
        "state": "failed" if failed else listed.state,
        "problem": failure if failed else problem,
        **described(about),
        "step": listed.step,
        "score": None if score is None else score.value,
        "score_kind": None if score is None else score.kind,
        "speed": speed,
        "seconds_left": seconds_left(listed, speed),
        "changed": listed.changed,
        "opens": listed.state != "damaged",
        "dreams": listed.state != "damaged" and has_model(about),
    }


def described(about: Description | None) -> Mapping[str, Any]:
    names = ("recipe", "size", "env", "seed", "steps")
    if about is None:
        return {**dict.fromkeys(names), "published": None}
    return {
        **{name: getattr(about, name) for name in names},
        "published": published_score(about.recipe, about.env),
    }


def has_model(about: Description | None) -> bool:
    """Whether the agent of a run has a world model: all but PPO on real steps do."""
    world = {} if about is None else about.settings.get("world", {})
    return not (isinstance(world, dict) and world.get("type") == NO_MODEL)


def published_score(recipe: str, env: str) -> dict[str, Any] | None:
    """The score that the paper of a run's agent reports for its game."""
    found = lookup.for_run(recipe, env)
    if not found:
        return None
    best = found[0]
    return {"agent": best.agent, "value": best.value, "source": best.source}


def steps_per_second(listed: Listed) -> float | None:
    """Between the newest checkpoint before the last event and that event, by their times.

    Events hold no times, and a run that was resumed may have paused before earlier checkpoints.
    """
    written = modified(listed.path / events.FILE)
    saved = [point for point in checkpoint_times(listed.path) if point[0] < listed.step]
    if written is None or not saved:
        return None
    step, since = max(saved)
    return (listed.step - step) / (written - since) if written > since else None


def checkpoint_times(path: Path) -> list[tuple[int, float]]:
    """Step and time of each checkpoint."""
    try:
        with os.scandir(path / "checkpoints") as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return []
    found = [(CHECKPOINT.fullmatch(name), modified(path / "checkpoints" / name)) for name in names]
    return [(int(match[1]), when) for match, when in found if match and when is not None]


def modified(path: Path) -> float | None:
    try:
        return path.lstat().st_mtime
    except OSError:
        return None


def seconds_left(listed: Listed, speed: float | None) -> float | None:
    if not speed or listed.description is None:
        return None
    return max(listed.description.steps - listed.step, 0) / speed
