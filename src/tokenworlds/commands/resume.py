"""`tokenworlds resume`."""

from dataclasses import dataclass

from tokenworlds.commands.options import Run


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Continue a run exactly where it stopped."""

    run: Run
    """Folder of the run."""

    def execute(self) -> int:
        from tokenworlds.commands import choices, running
        from tokenworlds.training import session

        folder, spec = choices.open_run(self.run)
        exit_code = running.finish(spec, folder)
        if exit_code is None:
            exit_code = running.run_session(session.resume, spec, folder)
        return exit_code
