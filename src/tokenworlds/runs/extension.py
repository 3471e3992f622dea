"""Extended runs: a schedule for more steps than the run was started with."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tokenworlds.core.progress import Phase, Progress
from tokenworlds.core.protocols import Schedule
from tokenworlds.runs.recipe import build_schedule
from tokenworlds.runs.spec import Extension, RunSpec


def schedule_of(spec: RunSpec) -> Schedule:
    """The schedule of a run, extended or not."""
    schedule = build_schedule(spec.recipe)
    return schedule if spec.extended is None else Extended(schedule, spec.extended)


@dataclass(frozen=True, slots=True)
class Extended:
    """A schedule for more steps, whose own step never goes back.

    The last round of a shorter run may have been cut, and final epochs may have come before steps
    that follow now. Then the step goes evenly from where it was to the end.
    """

    # Of no schedule in particular: an extended run has its prefill behind it.
    prefill_key: ClassVar[str] = "schedule"
    schedule: Schedule
    extension: Extension

    @property
    def goal(self) -> Progress:
        return self.schedule.goal

    def phases(self, progress: Progress) -> Iterator[Phase]:
        return self.schedule.phases(progress)

    def step(self, progress: Progress) -> int:
        begin = Progress(self.extension.steps, self.extension.updates)
        before = self.extension.step
        if self.schedule.step(begin) == before:
            return self.schedule.step(progress)
        end = max(self.schedule.step(self.goal), before + self.goal.steps - begin.steps)
        whole, rest = work(begin.left(self.goal)), work(progress.left(self.goal))
        return max(before + (end - before) * (whole - rest) // whole, 0)


def work(left: Progress) -> int:
    return left.steps + left.update_count
