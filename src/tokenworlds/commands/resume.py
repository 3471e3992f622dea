"""`tokenworlds resume`."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from tokenworlds.commands.options import Count, RunOptions, Switch, TrackerOptions, default_text


@dataclass(frozen=True, kw_only=True)
class Resume(TrackerOptions, RunOptions):
    """Continue a run exactly where it stopped, or extend it to more steps."""

    steps: Annotated[Count, default_text("the run's")] = None
    """Extend the run to this many agent steps."""
    threads: Annotated[Count, default_text("the run's")] = None
    """CPU threads from now on; with another number the run is no longer exact."""
    without_replay: Switch = False
    """Continue from intact weights if replay is damaged: collect steps anew; the run is no
    longer exact."""

    def execute(self) -> int:
        from tokenworlds.commands import choices, running
        from tokenworlds.commands.ranks import joining
        from tokenworlds.commands.screen import print_note
        from tokenworlds.training import session
        from tokenworlds.training.extension import change_threads, extend_run
        from tokenworlds.training.trackers.choice import forgotten, open_trackers

        def change_or_finish() -> int | None:
            folder, spec = choices.open_run(self)
            if self.steps is not None or self.threads is not None:
                session.check_ranks(spec, folder, group)
            if self.steps is not None:
                command = f"tokenworlds resume --steps {self.steps}"
                spec = extend_run(folder, spec, self.steps, command)
            if self.threads is not None and self.threads != spec.threads:
                command = f"tokenworlds resume --threads {self.threads}"
                spec = change_threads(folder, spec, self.threads, command)
                print_note(f"{folder.path} does not repeat an uninterrupted run: other threads")
            exit_code = running.finish(spec, folder)
            for text in forgotten(folder.path, self.trackers) if exit_code is None else ():
                print_note(text)
            return exit_code

        with joining() as group:
            exit_code = group.lead(change_or_finish)
            if exit_code is None:
                folder, spec = choices.open_run(self)
                told = open_trackers(self.trackers) if group.leads else ()
                replay = not self.without_replay
                work = partial(session.resume, with_replay=replay, on_event=told)
                exit_code = running.run_session(work, spec, folder)
            return exit_code
