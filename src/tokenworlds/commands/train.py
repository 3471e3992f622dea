"""`tokenworlds train`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from tokenworlds.commands.options import (
    Assignments,
    Count,
    Env,
    Precision,
    Protocol,
    Recipe,
    Seed,
    Size,
    Switch,
    unstated,
)


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train an agent; with nothing given, step-vq-m on catch, in minutes."""

    recipe: Annotated[Recipe, arg(metavar="[RECIPE]")] = "step-vq-m"
    """A name that 'tokenworlds agents' lists, or my_agents.py:mine."""
    env: Env = "catch"
    """A name as 'tokenworlds envs' has them."""
    size: Size = "nano"
    """How large the networks are, and how long they learn."""
    steps: Annotated[Count, unstated("the recipe's")] = None
    """Agent steps to train for."""
    seed: Seed = 0
    """What all chance is drawn from."""
    assignments: Assignments = ()
    """Change values of the recipe, as 'tokenworlds show' has them; may be repeated."""
    run: Annotated[str, unstated("runs/RECIPE-ENV-sSEED"), arg(metavar="DIR")] = ""
    """Folder of the run."""
    device: Annotated[str, arg(metavar="{auto,cpu,cuda,cuda:N,mps}")] = "auto"
    """Where to compute."""
    precision: Precision = "auto"
    """Of products and convolutions; auto is bfloat16 on CUDA devices that have it."""
    compile: Switch = False
    """Have torch compile what is learned; begins slowly, and what cannot be runs as it is."""
    threads: Annotated[Count, unstated("one for each core")] = None
    """Threads to compute with; as many give the same run again."""
    protocol: Protocol = ""
    """By which rules the environment is played."""

    def execute(self) -> int:
        """Train until the steps are done, or until interrupted."""
        from tokenworlds.core.process import prepare_process

        prepare_process()
        from tokenworlds.commands import choices, running
        from tokenworlds.runs.folder import RunFolder, free_folder

        spec = choices.choose_run(
            recipe=self.recipe,
            size=self.size,
            env=self.env,
            protocol=self.protocol,
            seed=self.seed,
            steps=self.steps,
            device=self.device,
            precision=self.precision,
            compiled=self.compile,
            threads=self.threads,
            assignments=self.assignments,
        )
        path = Path(self.run) if self.run else free_folder(choices.default_folder(spec))
        return running.start(spec, RunFolder(path))
