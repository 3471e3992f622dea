"""`tokenworlds resume`."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from tokenworlds.commands.options import Count, RunOptions, Switch, default_text


@dataclass(frozen=True, kw_only=True)
class Resume(RunOptions):
    """Continue a run exactly where it stopped, or extend it to more steps."""

    steps: Annotated[Count, default_text("the run's")] = None
    """Extend the run to this many agent steps."""
    without_replay: Switch = False
    """Continue from intact weights if replay is damaged: collect steps anew; the run is no
    longer exact."""

    def execute(self) -> int:
        from tokenworlds.commands import choices, running
        from tokenworlds.training import session
        from tokenworlds.training.extension import extend_run

        folder, spec = choices.open_run(self)
        if self.steps is not None:
            command = f"tokenworlds resume --steps {self.steps}"
            spec = extend_run(folder, spec, self.steps, command)
        exit_code = running.finish(spec, folder)
        if exit_code is None:
            work = partial(session.resume, with_replay=not self.without_replay)
            exit_code = running.run_session(work, spec, folder)
        return exit_code
