"""The one loop: phases of a schedule, with whatever is due after each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any, Protocol

from tokenworlds.core.clocks import Every
from tokenworlds.core.seeding import derive
from tokenworlds.evaluation.episodes import Episode, evaluate
from tokenworlds.training.job import Job, metrics_of
from tokenworlds.training.metrics import Average, MetricsFile
from tokenworlds.training.pace import Pace
from tokenworlds.training.run_folder import RunFolder
from tokenworlds.training.schedule import Phase
from tokenworlds.training.spec import RunSpec


class Screen(Protocol):
    """Where a run shows itself."""

    def event(self, event: Mapping[str, Any]) -> None:
        """Numbers were written down."""
        ...

    def progress(self, steps: int, rates: Mapping[str, float], seconds_left: float | None) -> None:
        """A phase is over."""
        ...

    def note(self, text: str) -> None:
        """Something worth a sentence happened."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run stands when the loop is left."""

    finished: bool
    steps: int


class Loop:
    """Trains a job until its steps are done, or until it is asked to stop."""

    def __init__(self, spec: RunSpec, folder: RunFolder, screen: Screen) -> None:
        self.spec = spec
        self.folder = folder
        self.screen = screen
        self.job = Job(spec, folder.path)
        self.metrics = MetricsFile(folder.path)
        self.average = Average()
        self.pace = Pace()

    def begin(self) -> None:
        """Start from nothing, with a checkpoint to come back to."""
        self.job.replay.clear()
        self.save()

    def resume(self) -> bool:
        """Go back to the newest checkpoint that verifies; False if there is none."""
        found, told = self.folder.newest(lambda c: self.job.replay.verify(c.state["replay"]))
        for text in told:
            self.screen.note(text)
        if found is None:
            return False
        for text in self.job.restore(found):
            self.screen.note(text)
        self.metrics.cut(found.state["metrics"])
        return True

    def run(self, should_stop: Callable[[], bool]) -> Outcome:
        """Phase after phase."""
        schedule = self.spec.recipe.schedule.build()
        phases = schedule.phases(self.job.progress, self.spec.recipe.streams)
        while self.job.progress.steps < self.spec.recipe.steps:
            if should_stop():
                self.save()
                return Outcome(False, self.job.progress.steps)
            previous = self.job.progress.steps
            self._work(next(phases))
            self._upkeep(previous)
        self.save()
        return Outcome(True, self.job.progress.steps)

    def _work(self, phase: Phase) -> None:
        with self.pace.measure("agent_steps", phase.collect * self.spec.recipe.streams):
            self.average.add(metrics_of(self.job.collect(phase)))
        for name, count in phase.updates.items():
            for _ in range(count):
                with self.pace.measure(f"{name}_updates", 1):
                    self.average.add(self.job.update(name))

    def _upkeep(self, previous: int) -> None:
        steps, recipe = self.job.progress.steps, self.spec.recipe
        if Every(recipe.evaluation.every).due(previous, steps) and steps < recipe.steps:
            self._evaluate()
        if Every(recipe.housekeeping.log_every).due(previous, steps):
            self._log(self.average.take())
        if Every(recipe.housekeeping.save_every).due(previous, steps):
            self.save()
        if self.job.progress.updates:
            self.pace.mark(steps)
        left = self.pace.seconds_left(max(recipe.steps - steps, 0))
        self.screen.progress(steps, self.pace.rates(), left)

    def _log(self, values: Mapping[str, float]) -> None:
        event = {**self.units(), **values}
        self.metrics.write(event)
        self.screen.event(event)

    def units(self) -> dict[str, int]:
        """How far the run is, in every unit that papers count in."""
        progress, recipe = self.job.progress, self.spec.recipe
        dreams = progress.updates.get("behaviour", 0)
        batch = recipe.learning["behaviour"].batch
        return {
            "agent_steps": progress.steps,
            "env_frames": progress.steps * self.job.envs.frame_skip,
            "gradient_steps": sum(progress.updates.values()),
            "imagined_steps": dreams * batch * self.job.player.behaviour.horizon,
        }

    def _evaluate(self) -> None:
        settings = self.spec.recipe.evaluation
        episodes = self.judge(settings.episodes)
        values = {"evaluation/return": mean(e.score for e in episodes)}
        self._log({**values, "evaluation/episodes": len(episodes)})

    def judge(self, episodes: int) -> list[Episode]:
        """Play episodes; the games hang on the run's seed and on how far it is."""
        seed = derive(self.spec.seed, "evaluation", self.job.progress.steps)
        greedy = self.spec.recipe.evaluation.greedy
        return evaluate(self.job.player, self.spec.env, episodes=episodes, seed=seed, greedy=greedy)

    def save(self) -> None:
        """Write a checkpoint."""
        checkpoint = self.job.checkpoint(metrics=self.metrics.size)
        keep = self.spec.recipe.housekeeping.keep
        self.folder.save(self.job.progress.steps, checkpoint, keep)

    def close(self) -> None:
        """Let go of environments and files."""
        self.job.close()
        self.metrics.close()
        self.folder.unlock()
