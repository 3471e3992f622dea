"""`tokenworlds resume`."""

from dataclasses import dataclass

from tokenworlds.commands.options import Run


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Go on with a run exactly where it stopped."""

    run: Run
    """Folder of the run."""

    def execute(self) -> int:
        """Train until the steps are done; of a run that is done, make sure that it was judged."""
        from tokenworlds.core.process import prepare_process

        prepare_process()
        from tokenworlds.commands import choices, running

        folder, spec = choices.open_run(self.run)
        ended = running.finish(spec, folder)
        return running.take_up(spec, folder) if ended is None else ended
