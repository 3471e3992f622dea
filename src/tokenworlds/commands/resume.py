"""`tokenworlds resume`."""

from dataclasses import dataclass
from functools import partial

from tokenworlds.commands.options import RunOptions, Switch


@dataclass(frozen=True, kw_only=True)
class Resume(RunOptions):
    """Continue a run exactly where it stopped."""

    without_replay: Switch = False
    """Continue from intact weights if replay is damaged: collect steps anew; the run is no
    longer exact."""

    def execute(self) -> int:
        from tokenworlds.commands import choices, running
        from tokenworlds.training import session

        folder, spec = choices.open_run(self)
        exit_code = running.finish(spec, folder)
        if exit_code is None:
            work = partial(session.resume, with_replay=not self.without_replay)
            exit_code = running.run_session(work, spec, folder)
        return exit_code
