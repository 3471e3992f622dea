"""In which order steps are collected and learners updated."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tokenworlds.core.clocks import Ratio
from tokenworlds.core.config import Component, ConfigOf


@dataclass(frozen=True, slots=True)
class Phase:
    """Collect this many steps of every stream, then update each learner this many times."""

    collect: int
    updates: Mapping[str, int]
    random: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: agent steps of all streams, and updates of each learner."""

    steps: int = 0
    updates: Mapping[str, int] = field(default_factory=dict)


class Schedule(Protocol):
    """A generator of phases; begun anew from the progress of a run it goes on where that was."""

    def phases(self, progress: Progress, streams: int) -> Iterator[Phase]:
        """Phases without end."""
        ...


class Interleaved(Component):
    """A step of every stream, then the updates that are due; random play before the first."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Interleaved"]):
        """Choices: `updates` of each learner per agent step after the warm-up."""

        warm_up: int = 1032
        updates: Mapping[str, float] = field(default_factory=dict)

    def __init__(self, config: Config) -> None:
        self.config = config

    def phases(self, progress: Progress, streams: int) -> Iterator[Phase]:
        """The warm-up as one phase, then one phase for each step of the streams."""
        steps, done = progress.steps, dict(progress.updates)
        if steps < self.config.warm_up:
            collect = -(-(self.config.warm_up - steps) // streams)
            steps += collect * streams
            yield Phase(collect, {}, random=True)
        while True:
            steps += streams
            due = self._due(steps, done)
            done = {name: done.get(name, 0) + count for name, count in due.items()}
            yield Phase(1, due)

    def _due(self, steps: int, done: Mapping[str, int]) -> dict[str, int]:
        learned = steps - self.config.warm_up
        return {
            name: Ratio(per_step).due(learned, done.get(name, 0))
            for name, per_step in self.config.updates.items()
        }
