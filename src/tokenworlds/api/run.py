"""A run folder in Python: its metrics, scores and agent."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from tokenworlds.agent import open_agent
from tokenworlds.api.agent import Agent
from tokenworlds.api.own_env import trusting
from tokenworlds.api.sessions import Callbacks, listed, run_session
from tokenworlds.core.group import current_group, joined
from tokenworlds.core.protocols import Screen
from tokenworlds.evaluation.results import FILE, Result, Score, read_result
from tokenworlds.runs.events import read_metrics
from tokenworlds.runs.extension import schedule_of
from tokenworlds.runs.folder import LAST, RunFolder
from tokenworlds.runs.own_code import Trust
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training import session
from tokenworlds.training.callbacks import Callback
from tokenworlds.training.extension import extend_run
from tokenworlds.training.loop import ended_early
from tokenworlds.training.session import SessionEnd
from tokenworlds.training.trainer import progress_of


class Run:
    """A run, finished or not; everything is read from its folder when asked for."""

    def __init__(self, folder: RunFolder, trust: Trust) -> None:
        self._folder = folder
        self._trust = trust

    @staticmethod
    def open(
        folder: str | Path,
        modules: Mapping[str, ModuleType] | None = None,
        *,
        env: object = "",
        trust: bool = False,
    ) -> "Run":
        """The run in a folder; for the other arguments see `Agent.load`."""
        run, allowed = RunFolder.open(Path(folder)), Trust(modules or {}, everything=trust)
        return Run(run, trusting(allowed, env, run.spec(allowed).env))

    @property
    def folder(self) -> Path:
        return self._folder.path

    def __fspath__(self) -> str:
        """A run stands for its folder, as in `Agent.load(run)` or `train(init=run)`."""
        return str(self.folder)

    @property
    def spec(self) -> RunSpec:
        """The recipe, environment, seed and so on that the run was started with."""
        return self._folder.spec(self._trust)

    @property
    def metrics(self) -> Any:
        """A row for each log event, by `agent_steps`: losses, returns, evaluations.

        A pandas data frame if pandas is installed, else a list of dicts.
        """
        events, _ = read_metrics(self.folder)
        if importlib.util.find_spec("pandas") is None:
            return events
        import pandas

        return pandas.DataFrame(events)

    @property
    def result(self) -> Result | None:
        """The final evaluation; None before the run is finished."""
        return read_result(self.folder / FILE)

    @property
    def returns(self) -> tuple[float, ...]:
        """The return of each episode of the final evaluation; empty before it."""
        found = self.result
        return () if found is None else found.returns

    @property
    def score(self) -> Score | None:
        """The mean of `returns` with its standard error."""
        found = self.result
        return None if found is None else found.score

    @property
    def finished(self) -> bool:
        """Whether training is over: all steps, or stopped early by an option of `train`."""
        spec, newest = self.spec, self._folder.newest().checkpoint
        done = progress_of(newest).reaches(schedule_of(spec).goal)
        return done or bool(ended_early(spec, newest))

    def agent(self, checkpoint: str | int = LAST) -> Agent:
        """The agent of a checkpoint: "last", "best" or a step."""
        opened = open_agent(self.folder, self._trust, checkpoint=str(checkpoint))
        return Agent(opened, self._trust)

    def resume(
        self,
        steps: int | None = None,
        *,
        on_event: Callbacks | None = None,
        progress: bool = True,
    ) -> "Run":
        """Continue a run that was stopped, or extend it to this many agent steps in all.

        An extended run equals one that was made at once. See `train` for the other arguments.
        """
        self._trust.check_env(self._folder.path, self.spec.env.name)
        with joined() as group:
            group.lead(lambda: self._extend(steps))
            told = listed(on_event) if group.leads else ()
            run_session(partial(finish_or_resume, told), self.spec, self._folder, progress)
        return self

    def _extend(self, steps: int | None) -> None:
        if steps is not None:
            session.check_ranks(self.spec, self._folder, current_group())
            extend_run(self._folder, self.spec, steps, f"tokenworlds resume --steps {steps}")

    def __repr__(self) -> str:
        spec = self.spec
        score = "no score yet" if self.score is None else f"score {self.score}"
        return f"Run({spec.recipe_name} ({spec.size}) on {spec.env.name}, {score}, {self.folder})"


def finish_or_resume(
    on_event: Sequence[Callback],
    spec: RunSpec,
    folder: RunFolder,
    screen: Screen,
    should_stop: Callable[[], bool],
) -> SessionEnd:
    """Train the remaining steps. If none remain, make the final evaluation if it is missing."""
    done = current_group().lead(lambda: session.finish(spec, folder, should_stop, screen.note))
    return done or session.resume(spec, folder, screen, should_stop, on_event=on_event)
