"""The training loop: the phases of a schedule, with evaluations, logs and checkpoints between."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from statistics import mean
from typing import Any

from torch import Tensor

from tokenworlds.core.description import to_json
from tokenworlds.core.errors import UserError
from tokenworlds.core.group import current_group
from tokenworlds.core.progress import Every, Phase, Progress
from tokenworlds.core.protocols import Schedule, Screen
from tokenworlds.evaluation.episodes import (
    Episode,
    EvaluationStopped,
    evaluate,
    evaluation_seed,
)
from tokenworlds.evaluation.results import TrainingEpisodes
from tokenworlds.runs.checkpoint import Checkpoint, explaining_misfits
from tokenworlds.runs.extension import schedule_of
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.metrics import Average, MetricsFile, NoMetrics
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.callbacks import Callback, Event, EventKind, deliver
from tokenworlds.training.throughput import EPISODES, Throughput, work_of
from tokenworlds.training.trainer import Trainer


class Loop:
    """Trains until the schedule's goal is reached or the user asks to stop.

    The functions of `on_event` are called between phases, so a run can be saved if one fails. All
    ranks of a group run the same loop; rank 0 writes, evaluates and calls these functions.
    """

    def __init__(
        self, spec: RunSpec, folder: RunFolder, screen: Screen, on_event: Sequence[Callback] = ()
    ) -> None:
        self.spec = spec
        self.folder = folder
        self.screen = screen
        self.group = current_group()
        self.trainer = Trainer(spec, folder.path, screen.note, self.group)
        self.metrics = (MetricsFile if self.group.leads else NoMetrics)(folder.path)
        self.average = Average()
        self.collected = TrainingEpisodes()
        self.throughput = Throughput()
        self.schedule = schedule_of(spec)
        self.goal = self.schedule.goal
        self._on_event = on_event
        self._events: list[Event] = []
        """Events that callbacks do not know yet."""
        self._tended = 0
        self._owed = False
        """Whether an evaluation is due that has not been made."""
        self._stale = 0
        """Evaluations since the best one."""
        self.ended = ""
        """Why the run stopped before its goal, if it did."""
        self._saved: Progress | None = None
        self._cut = False
        """Whether the last phase was not completed."""
        self._best: dict[str, Any] | None = None
        """Step and mean return of the best evaluation."""
        self._inexact: int | None = None
        """The step at which the run lost its replay, if it did."""

    @property
    def steps(self) -> int:
        return self.trainer.progress.steps

    @property
    def step(self) -> int:
        """The step of the run, which times evaluations, logs and checkpoints."""
        return self.schedule.step(self.trainer.progress)

    @property
    def finished(self) -> bool:
        return bool(self.ended) or self.trainer.progress.reaches(self.goal)

    def begin(self) -> None:
        """Start a new run with a first checkpoint."""
        self.trainer.replay.clear()
        self.metrics.clear()
        self.happened("start")
        self.save()
        self.group.lead(self.folder.commit)

    def begin_from(self, found: Checkpoint) -> None:
        """Start a fork, whose replay and metrics are copied, from a checkpoint of its parent.

        The best evaluation counts anew: the fork does not have its checkpoint.
        """
        with explaining_misfits(found):
            notes = self._restore(found, with_replay=True)
        self._best, self._stale, self.ended, self._saved = None, 0, "", None
        for text in (*notes, *inexactness(self._inexact)):
            self.screen.note(text)
        self.happened("start", resumed=True)
        self.save()
        self.group.lead(self.folder.commit)

    def resume(self, with_replay: bool = True) -> None:
        """Go back to the newest checkpoint that verifies.

        Without its replay, the run collects as many steps as it did before its first update, saves
        them and goes on; it does not repeat an uninterrupted run.
        """
        verify = self._verify_replay if with_replay else None
        newest = self.folder.newest(verify)
        self.group.check_same(lambda: newest.checkpoint.manifest, "the checkpoints that they read")
        if not with_replay:
            self._insist_on_damage(newest.checkpoint)
        with explaining_misfits(newest.checkpoint):
            notes = self._restore(newest.checkpoint, with_replay)
            self._inexact = self._inexact if with_replay else self.steps
            notes += inexactness(self._inexact)
        for text in (*newest.skipped, *notes):
            self.screen.note(text)
        self.happened("start", resumed=True)
        if not with_replay:
            self._collect_anew()

    def _verify_replay(self, checkpoint: Checkpoint) -> None:
        with explaining_misfits(checkpoint):
            self.trainer.replay.verify(checkpoint.state["replay"])

    def _insist_on_damage(self, checkpoint: Checkpoint) -> None:
        """Raise `UserError` if the replay is intact: it would be deleted for nothing."""
        try:
            self._verify_replay(checkpoint)
        except (UserError, OSError):
            return
        raise UserError(
            f"{self.folder.path} has its replay: continue with 'tokenworlds resume "
            f"{self.folder.path}', which repeats an uninterrupted run"
        )

    def _collect_anew(self) -> None:
        """Fill replay as far as it was, at most as far as before the first update, and save."""
        before = self.steps // self.spec.recipe.num_envs
        self.trainer.collect_anew(min(before, prefill(self.schedule)))
        self._saved = None
        self.save()

    def _restore(self, found: Checkpoint, with_replay: bool) -> list[str]:
        """Returns notes for the user."""
        notes = self.trainer.restore(found, with_replay)
        notes += self.metrics.restore(found.state["metrics"])
        self.average.restore(found.state["average"])
        self._tended = found.state["tended"]
        self._owed = found.state.get("owed", False)
        self._stale = found.state.get("stale", 0)
        self.ended = ended_early(self.spec, found)
        self._best = found.state.get("best")
        self.collected = TrainingEpisodes(**found.state.get("collected", {}))
        self._inexact = found.state["inexact"]
        self._cut = found.state["cut"]
        self._saved = self.trainer.progress
        return notes

    def run(self, should_stop: Callable[[], bool]) -> bool:
        """Work through the phases, then save; returns whether the goal is reached.

        What was due when a run stopped comes first, unless an environment failed within a phase:
        that is continued.
        """
        phases = self.schedule.phases(self.trainer.progress)
        if not self._cut:
            self._tend(should_stop)
        while not self.finished and not self.group.agree(should_stop()):
            phase = next(phases)
            if phase.collect:
                self._collect(phase)
            for name in phase.learners:
                with self.throughput.measure(f"{name}_updates", 1):
                    metrics = self.trainer.update(name)
                self._note(metrics)
            self._tend(should_stop)
        self.save()
        self.deliver()
        return self.finished

    def _collect(self, phase: Phase) -> None:
        steps = phase.collect * self.spec.recipe.num_envs
        # Random play does not show how long acting takes.
        with nullcontext() if phase.random else self.throughput.measure("agent_steps", steps):
            self._cut = True
            finished = self.trainer.collect(phase)
            self._cut = False
        for game in finished:
            self.collected = self.collected.plus(game.score, game.info)
            self._note({"collect/return": game.score, "collect/length": float(game.length)})

    def _note(self, values: Mapping[str, Tensor | float]) -> None:
        """Average values until the next log event; without log events they would pile up."""
        if self.spec.recipe.housekeeping.log_every:
            self.average.add(values)

    def _tend(self, should_stop: Callable[[], bool]) -> None:
        """Log, evaluate and save if due.

        A stopped evaluation is owed, and made after a resume. So is one that is due at the end of
        a run, where the final evaluation takes its place, if the run is extended.
        """
        recipe = self.spec.recipe
        if self._due(recipe.housekeeping.log_every):
            self._log("log", {**self.average.take(), **self._counts()})
        self._owed = self._owed or self._due(recipe.evaluation.every)
        self._tended = self.step
        if self._owed and not self.finished:
            try:
                self._evaluate(should_stop)
            except EvaluationStopped:
                return
            self._owed = False
        saved = self.schedule.step(self._saved or Progress())
        if Every(recipe.housekeeping.save_every).due(saved, self.step):
            self.save()
        self._show()
        self.deliver()

    def _due(self, every: int) -> bool:
        return Every(every).due(self._tended, self.step)

    def _show(self) -> None:
        rates = dict(self.throughput.rates())
        for name, count in self.trainer.imagined_steps.items():
            if count and f"{name}_updates" in rates:
                rates["imagined_steps"] = rates[f"{name}_updates"] * count
        work = work_of(self.trainer.progress.left(self.goal))
        left = self.throughput.seconds_left(work, self.episodes_left())
        share = self.step / self.schedule.step(self.goal)
        self.screen.progress(self.steps, rates, left, share)

    def episodes_left(self) -> int:
        """Episodes of evaluations to come, the final one included."""
        settings, end = self.spec.recipe.evaluation, self.schedule.step(self.goal)
        every = settings.every
        to_come = (end - 1) // every - self.step // every if every else 0
        return settings.final_episodes + settings.episodes * max(to_come, 0)

    def _log(self, kind: EventKind, values: Mapping[str, float | int]) -> None:
        event = {**self.units(), **values}
        self.metrics.write(event)
        self.screen.event(event)
        self.happened(kind, values=event)

    def happened(self, kind: EventKind, **more: Any) -> None:
        """Remember an event until the next `deliver`."""
        event = Event(
            kind=kind, run=self.folder.path, spec=self.spec, agent_steps=self.steps, **more
        )
        self._events.append(event)

    def deliver(self) -> None:
        """Tell callbacks what happened; an event that makes one fail is not repeated."""
        if self._events:
            try:
                self.group.lead(self.deliver_alone)
            finally:
                self._events = []

    def deliver_alone(self) -> None:
        """The same, while other ranks may not be there."""
        events, self._events = self._events, []
        deliver(events, self._on_event if self.group.leads else ())

    def _counts(self) -> dict[str, int]:
        """Episodes so far, and those that unlocked each achievement."""
        unlocked = {f"collect/unlocked/{name}": n for name, n in self.collected.unlocked.items()}
        return {"collect/episodes": self.collected.episodes, **unlocked}

    def units(self) -> dict[str, int]:
        """Progress in every unit that papers use."""
        updates, imagined = self.trainer.progress.updates, self.trainer.imagined_steps
        return {
            "agent_steps": self.steps,
            "env_frames": self.steps * self.spec.env.frame_skip,
            "gradient_steps": self.trainer.progress.gradient_steps,
            "imagined_steps": sum(updates.get(name, 0) * n for name, n in imagined.items()),
        }

    def _evaluate(self, should_stop: Callable[[], bool]) -> None:
        count = self.spec.recipe.evaluation.episodes
        with self.throughput.measure(EPISODES, count):
            episodes = self.evaluate(count, should_stop)
        score = mean(e.score for e in episodes)
        # A later evaluation that is as good does not count: the earlier checkpoint is kept.
        if self._best is None or score > self._best["return"]:
            self._best = {"step": self.step, "return": score}
            self._stale = 0
            best = self.trainer.agent_checkpoint(**self._results())
            path = self.group.lead(lambda: self.folder.save_best(self.step, best))
            self.happened("best", path=path)
        else:
            self._stale += 1
        if self.spec.stop is not None:
            best_return, step = self._best["return"], self._best["step"]
            self.ended = self.spec.stop.verdict(score, best_return, step, self._stale)
        self._log("evaluation", {"evaluation/return": score, "evaluation/episodes": len(episodes)})

    def evaluate(
        self, episodes: int, should_stop: Callable[[], bool] = lambda: False
    ) -> list[Episode]:
        """Play episodes; the run's seed and step determine the games."""
        (played,) = self.group.lead(
            lambda: evaluate(
                [self.trainer.agent],
                self.spec.env,
                episodes=episodes,
                seed=evaluation_seed(self.spec.seed, self.steps),
                temperature=self.spec.recipe.evaluation.temperature,
                processes=self.spec.threads,
                should_stop=should_stop,
            )
        )
        return played

    def save(self) -> None:
        """Write a checkpoint, unless this progress is saved already."""
        if self._saved == self.trainer.progress:
            return
        checkpoint = self.trainer.checkpoint(
            metrics=self.metrics.state(),
            average=self.average.state(),
            tended=self._tended,
            owed=self._owed,
            stale=self._stale,
            ended=self.ended,
            inexact=self._inexact,
            cut=self._cut,
            **self._results(),
        )
        self.group.check_same(self.trainer.checksum, "the weights")
        keep = self.spec.recipe.housekeeping.keep
        path = self.group.lead(lambda: self.folder.save(self.step, checkpoint, keep))
        self.happened("checkpoint", path=path)
        self._saved = self.trainer.progress

    def _results(self) -> dict[str, Any]:
        """What every checkpoint holds for those who evaluate it."""
        envs = self.trainer.envs
        return {
            "best": self._best,
            "collected": asdict(self.collected),
            "frame_shape": to_json(envs.frame_shape),
            "action_space": to_json(envs.action_space),
        }

    def close(self) -> None:
        self.trainer.close()
        self.metrics.close()
        self.folder.unlock()


def ended_early(spec: RunSpec, checkpoint: Checkpoint) -> str:
    """Why a run had stopped early when a checkpoint was written; empty if its rule was lifted."""
    reason = checkpoint.state.get("ended", "") if spec.stop is not None else ""
    return reason if isinstance(reason, str) else ""


def inexactness(step: int | None) -> list[str]:
    """A sentence if the run lost its replay at a step."""
    if step is None:
        return []
    return [
        f"the run lost its replay at step {step:,} and collected anew: it does not repeat an "
        "uninterrupted run"
    ]


def prefill(schedule: Schedule) -> int:
    """Steps of every environment before the first update of a run."""
    collected = 0
    for phase in schedule.phases(Progress()):
        collected += phase.collect
        if any(phase.updates.values()):
            break
    return collected
