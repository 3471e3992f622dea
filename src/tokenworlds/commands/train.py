"""`tokenworlds train`."""

import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from tokenworlds.commands.options import (
    NO_DEFAULT,
    Assignments,
    Count,
    Env,
    EnvAssignments,
    Json,
    Number,
    Precision,
    Protocol,
    Recipe,
    Seed,
    Size,
    Switch,
    TrackerOptions,
    default_text,
)

OPTIONAL = (
    *("steps", "protocol", "device", "precision", "threads", "stop_at_return", "patience"),
    *("init", "fresh"),
)


@dataclass(frozen=True, kw_only=True)
class Train(TrackerOptions):
    """Train an agent (default: step-vq-m on catch, about four minutes)."""

    recipe: Annotated[Recipe, arg(metavar="[RECIPE]")] = "step-vq-m"
    """A recipe from 'tokenworlds agents', or your own: my_agents.py:mine."""
    env: Env = "catch"
    """An environment from 'tokenworlds envs', or your own: my_env.py:make."""
    size: Size = "nano"
    """Size of the networks and length of the training."""
    steps: Annotated[Count, default_text("the recipe's")] = None
    """Agent steps to train for."""
    seed: Seed = 0
    """Seed of all randomness."""
    assignments: Assignments = ()
    """Change settings of the recipe, as listed by 'tokenworlds show'; may be repeated."""
    run: Annotated[str, default_text("runs/RECIPE-ENV-sSEED"), arg(metavar="DIR")] = ""
    """Folder of the run."""
    device: Annotated[str, arg(metavar="{auto,cpu,cuda,cuda:N,mps}")] = "auto"
    """Device to compute on; auto is cuda if there is one, else cpu."""
    precision: Precision = "auto"
    """Precision of matrix products and convolutions; auto is bfloat16 on CUDA devices
    that support it, else float32."""
    compile: Switch = False
    """Compile losses and dreams with torch.compile; the first updates are slow."""
    threads: Annotated[Count, default_text("one per core")] = None
    """CPU threads; the same number is needed to reproduce a run exactly."""
    protocol: Protocol = ""
    """Protocol of the environment, from 'tokenworlds envs'."""
    env_set: EnvAssignments = ()
    """Options of a Gymnasium environment, from 'tokenworlds envs', as in frame_skip=4."""
    stop_at_return: Annotated[Number, NO_DEFAULT] = None
    """Stop early once an evaluation during training has this mean return."""
    patience: Annotated[Count, NO_DEFAULT] = None
    """Stop early after this many evaluations without a better one."""
    init: Annotated[str, NO_DEFAULT, arg(metavar="RUN")] = ""
    """Begin with the weights of a run, or of a folder that Agent.save wrote."""
    fork: Annotated[str, NO_DEFAULT, arg(name="from", metavar="RUN")] = ""
    """Fork a run: continue its newest checkpoint, with its replay, in a new folder, changed by
    --set, --steps and the options to stop early."""
    fresh: Annotated[str, NO_DEFAULT, arg(metavar="LEARNER")] = ""
    """With --from: this learner starts anew, as 'behaviour' for actor and critic."""
    json: Json = False
    """Print one JSON document at the end; all else goes to stderr."""

    def execute(self) -> int:
        from tokenworlds.commands import choices, running
        from tokenworlds.commands.ranks import joining
        from tokenworlds.runs.folder import RunFolder, free_folder
        from tokenworlds.training import session
        from tokenworlds.training.trackers.choice import open_trackers

        with joining() as group:
            origin, spec = choices.choose_origin(self)
            told = open_trackers(self.trackers) if group.leads else ()
            start = partial(session.start, command=self.command(), on_event=told, origin=origin)
            found = group.lead(lambda: free_folder(choices.default_folder(spec)))
            folder = RunFolder(Path(self.run) if self.run else found)
            return running.run_session(start, spec, folder, self.json)

    def command(self) -> str:
        """The command that makes the same run, without its folder."""
        words = ["tokenworlds", "train"]
        if self.fork:
            words += ["--from", self.fork]
        else:
            words += [self.recipe, "--env", self.env, "--size", self.size, "--seed", str(self.seed)]
        for name in OPTIONAL:
            if (value := getattr(self, name)) not in (None, "", "auto"):
                words += [f"--{name.replace('_', '-')}", str(value)]
        settings = [word for group in self.assignments for word in group]
        words += ["--set", *settings] if settings else []
        env_options = [word for group in self.env_set for word in group]
        words += ["--env-set", *env_options] if env_options else []
        return shlex.join([*words, "--compile"] if self.compile else words)
