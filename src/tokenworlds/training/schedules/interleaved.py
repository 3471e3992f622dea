"""Collect one step of every environment, then make the updates that are due."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.progress import Phase, Progress, Ratio, round_up


class Interleaved(Component):
    """`warm_up` steps without updates, then steps and updates in a fixed ratio."""

    prefill_key: ClassVar[str] = "schedule.warm_up"

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Interleaved"]):
        """`updates` of each learner per agent step after the warm-up, whose actions are random
        unless `random_warm_up` is off."""

        warm_up: int = 1032
        random_warm_up: bool = True
        updates: Mapping[str, float] = field(default_factory=dict)

    def __init__(self, config: Config, *, num_envs: int, total: int) -> None:
        self.config = config
        self.num_envs = num_envs
        self.steps = round_up(total, num_envs)

    @property
    def goal(self) -> Progress:
        return Progress(self.steps, self._due(self.steps, {}))

    def phases(self, progress: Progress) -> Iterator[Phase]:
        """One phase for each step of the environments, in the warm-up too."""
        steps, done = progress.steps, dict(progress.updates)
        warm = min(round_up(self.config.warm_up, self.num_envs), self.steps)
        while steps < warm:
            yield Phase(1, {}, random=self.config.random_warm_up)
            steps += self.num_envs
        while steps < self.steps:
            steps += self.num_envs
            due = self._due(steps, done)
            done = {name: done.get(name, 0) + count for name, count in due.items()}
            yield Phase(1, due)

    def step(self, progress: Progress) -> int:
        return progress.steps

    def _due(self, steps: int, done: Mapping[str, int]) -> dict[str, int]:
        learned = steps - self.config.warm_up
        return {
            name: Ratio(per_step).due(learned, done.get(name, 0))
            for name, per_step in self.config.updates.items()
        }
