"""`tokenworlds resume`."""

from dataclasses import dataclass
from pathlib import Path

from tokenworlds.commands.options import Run


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Go on with a run exactly where it stopped."""

    run: Run
    """Folder of the run."""

    def execute(self) -> int:
        """Train until the steps are done; a run that is done is only made sure of."""
        from tokenworlds.core.process import prepare_process

        prepare_process()
        from tokenworlds.commands import running
        from tokenworlds.recipes.catalogue import own_modules
        from tokenworlds.training.run_folder import RunFolder

        folder = RunFolder.open(Path(self.run))
        spec = folder.spec(own_modules)
        if folder.latest_step >= spec.recipe.steps:
            return running.finish(spec, folder)
        return running.take_up(spec, folder)
