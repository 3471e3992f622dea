"""The one loop: phases of a schedule, with whatever is due after each."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import mean
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from tokenworlds.core.clocks import Every
from tokenworlds.core.progress import Phase, Progress
from tokenworlds.envs.atari import PROTOCOLS as ATARI_PROTOCOLS
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.evaluation.episodes import Episode, EvaluationStopped, evaluate
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.metrics import Average, MetricsFile
from tokenworlds.runs.recipe import build_schedule
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.evaluation import evaluation_seed
from tokenworlds.training.job import Job
from tokenworlds.training.throughput import EPISODES, Throughput


@runtime_checkable
class Screen(Protocol):
    """Where a run shows itself."""

    def event(self, event: Mapping[str, Any]) -> None:
        """Numbers were written down."""
        ...

    def progress(
        self, steps: int, rates: Mapping[str, float], seconds_left: float | None, share: float
    ) -> None:
        """A phase is over, and with it this share of the run."""
        ...

    def note(self, text: str) -> None:
        """Something worth a sentence happened."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run stands when the loop is left."""

    finished: bool
    progress: Progress


class Loop:
    """Trains a job until its steps are done, or until it is asked to stop."""

    def __init__(self, spec: RunSpec, folder: RunFolder, screen: Screen) -> None:
        self.spec = spec
        self.folder = folder
        self.screen = screen
        self.job = Job(spec, folder.path, screen.note)
        self.metrics = MetricsFile(folder.path)
        self.average = Average()
        self.throughput = Throughput()
        self.schedule = build_schedule(spec.recipe)
        self.goal = self.schedule.goal
        self._tended = 0
        self._saved: Progress | None = None

    @property
    def steps(self) -> int:
        """Agent steps taken."""
        return self.job.progress.steps

    @property
    def step(self) -> int:
        """How old the run is: the clock of all that is done every so many steps."""
        return self.schedule.step(self.job.progress)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.job.progress.reaches(self.goal)

    def begin(self) -> None:
        """Start from nothing, with a checkpoint to come back to."""
        self.job.replay.clear()
        self.metrics.cut(0)
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
        self.average.restore(found.state["average"])
        self._tended = found.state["tended"]
        self._saved = self.job.progress
        return True

    def run(self, should_stop: Callable[[], bool]) -> Outcome:
        """Phase after phase; what a stop left undone comes first."""
        phases = self.schedule.phases(self.job.progress)
        self._tend(should_stop)
        while not self.finished and not should_stop():
            self._work(next(phases))
            self._tend(should_stop)
        self.save()
        return Outcome(self.finished, self.job.progress)

    def _work(self, phase: Phase) -> None:
        if phase.collect:
            self._collect(phase)
        for name, count in phase.updates.items():
            self._update(name, count)

    def _collect(self, phase: Phase) -> None:
        steps = phase.collect * self.spec.recipe.num_envs
        # Random play says nothing of how long it takes to act.
        with nullcontext() if phase.random else self.throughput.measure("agent_steps", steps):
            finished = self.job.collect(phase)
        for game in finished:
            self._note({"collect/return": game.score, "collect/length": float(game.length)})

    def _update(self, name: str, count: int) -> None:
        for _ in range(count):
            with self.throughput.measure(f"{name}_updates", 1):
                self._note(self.job.update(name))

    def _note(self, values: Mapping[str, Tensor | float]) -> None:
        """Keep values for the next log event, unless there never is one."""
        if self.spec.recipe.housekeeping.log_every:
            self.average.add(values)

    def _tend(self, should_stop: Callable[[], bool]) -> None:
        """Evaluate, log and save if due; an evaluation given up is due again after a resume."""
        recipe = self.spec.recipe
        try:
            if self._due(recipe.evaluation.every) and not self.finished:
                self._evaluate(should_stop)
        except EvaluationStopped:
            return
        if self._due(recipe.housekeeping.log_every):
            self._log(self.average.take())
        self._tended = self.step
        saved = self.schedule.step(self._saved or Progress())
        if Every(recipe.housekeeping.save_every).due(saved, self.step):
            self.save()
        self._show()

    def _due(self, every: int) -> bool:
        return Every(every).due(self._tended, self.step)

    def _show(self) -> None:
        rates, settings = dict(self.throughput.rates()), self.spec.recipe.evaluation
        if self._dreamed and "behaviour_updates" in rates:
            rates["imagined_steps"] = rates["behaviour_updates"] * self._dreamed
        step, end = self.step, self.schedule.step(self.goal)
        to_come = (end - 1) // settings.every - step // settings.every if settings.every else 0
        episodes = settings.final_episodes + settings.episodes * max(to_come, 0)
        left = self.throughput.seconds_left(work_of(self.job.progress.left(self.goal)), episodes)
        self.screen.progress(self.steps, rates, left, step / end)

    def _log(self, values: Mapping[str, float]) -> None:
        event = {**self.units(), **values}
        self.metrics.write(event)
        self.screen.event(event)

    @property
    def _dreamed(self) -> int:
        """Imagined steps of one update of the behaviour."""
        return self.spec.recipe.learning["behaviour"].batch * self.job.agent.behaviour.horizon

    def units(self) -> dict[str, int]:
        """How far the run is, in every unit that papers count in."""
        updates = self.job.progress.updates
        return {
            "agent_steps": self.steps,
            "env_frames": self.steps * frames_per_step(self.spec.env),
            "gradient_steps": self.job.progress.gradient_steps,
            "imagined_steps": updates.get("behaviour", 0) * self._dreamed,
        }

    def _evaluate(self, should_stop: Callable[[], bool]) -> None:
        count = self.spec.recipe.evaluation.episodes
        with self.throughput.measure(EPISODES, count):
            episodes = self.judge(count, should_stop)
        values = {"evaluation/return": mean(e.score for e in episodes)}
        self._log({**values, "evaluation/episodes": len(episodes)})

    def judge(
        self, episodes: int, should_stop: Callable[[], bool] = lambda: False
    ) -> list[Episode]:
        """Play episodes; the games hang on the run's seed and on how far it is."""
        return evaluate(
            self.job.agent,
            self.spec.env,
            episodes=episodes,
            seed=evaluation_seed(self.spec.seed, self.steps),
            temperature=self.spec.recipe.evaluation.temperature,
            should_stop=should_stop,
        )

    def save(self) -> None:
        """Write a checkpoint, unless there is one of this very moment."""
        if self._saved == self.job.progress:
            return
        more = {"metrics": self.metrics.sync(), "average": self.average.state()}
        checkpoint = self.job.checkpoint(**more, tended=self._tended)
        self.folder.save(self.step, checkpoint, self.spec.recipe.housekeeping.keep)
        self._saved = self.job.progress

    def close(self) -> None:
        """Let go of environments and files."""
        self.job.close()
        self.metrics.close()
        self.folder.unlock()


def work_of(progress: Progress) -> dict[str, int]:
    """Units of each kind of work, as the pace of them is measured."""
    updates = {f"{name}_updates": count for name, count in progress.updates.items()}
    return {"agent_steps": progress.steps, **updates}


def frames_per_step(env: EnvSpec) -> int:
    """Raw frames of the emulator that pass in one agent step."""
    return ATARI_PROTOCOLS[env.protocol].skip if env.name.startswith("atari:") else 1
