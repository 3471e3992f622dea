"""`tokenworlds evaluate`."""

import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import UseAppendAction, arg

from tokenworlds.commands.options import (
    NO_DEFAULT,
    AgentOptions,
    Count,
    Json,
    OptionalSeed,
    Switch,
    Temperature,
    default_text,
)
from tokenworlds.core.errors import UserError

if TYPE_CHECKING:
    from tokenworlds.evaluation.results import Result
    from tokenworlds.runs.folder import RunFolder
    from tokenworlds.runs.spec import RunSpec


def benchmark_text(result: "Result") -> str:
    """A line that names the benchmark, and how the result deviates from its protocol."""
    from tokenworlds.evaluation.benchmarks import benchmark_of, deviations

    found = benchmark_of(result.env, result.protocol)
    if found is None:
        return ""
    return f"\n        benchmark {found.name}: {'; '.join(deviations(result)) or 'as it asks'}"


@dataclass(frozen=True, kw_only=True)
class Evaluate(AgentOptions):
    """Evaluate a trained agent and a random policy.

    Writes evaluation.json, or a file in evaluations/ for other episodes than the final ones."""

    episodes: Annotated[Count, default_text("the recipe's final_episodes")] = None
    """Episodes to play."""
    checkpoint: Annotated[str, arg(metavar="{best,last,STEP}")] = "last"
    """Checkpoint to play with; the best is that of the highest evaluation during training."""
    temperature: Annotated[Temperature, default_text("the recipe's")] = None
    """0 takes the most likely action, 1 samples from the policy."""
    protocol: Annotated[str, arg(metavar="NAME"), default_text("the run's")] = ""
    """Protocol of the environment."""
    seed: Annotated[OptionalSeed, default_text("the run's")] = None
    """Seed of the episodes and of the agent's actions."""
    processes: Annotated[Count, default_text("one for each core")] = None
    """Processes that play; the result does not depend on it."""
    threads: Annotated[Count, default_text("the run's")] = None
    """CPU threads of --world; each process that plays has one."""
    world: Switch = False
    """Measure the world model instead: errors by horizon, and which part is at fault."""
    fvd_network: Annotated[str, NO_DEFAULT, arg(metavar="FILE")] = ""
    """With --world: TorchScript file of I3D for the Fréchet video distance. Its code is executed:
    take it from a source you trust."""
    compare: Annotated[tuple[str, ...], UseAppendAction, NO_DEFAULT, arg(metavar="RUN")] = ()
    """With --world: another run that was measured so, to draw on one page; may be repeated."""
    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        from tokenworlds.agent import CONFIG
        from tokenworlds.commands import choices
        from tokenworlds.commands.running import score_text
        from tokenworlds.evaluation.results import write_result
        from tokenworlds.pretrained import resolve

        if (resolve(self.run) / CONFIG).is_file():
            return self.evaluate_saved()
        folder, spec = choices.open_run(self)
        spec = replace(spec, threads=self.threads or spec.threads)
        if not os.access(folder.path, os.W_OK):
            raise UserError(f"cannot write to {folder.path}: the folder is read-only")
        if self.world:
            from tokenworlds.commands.evaluate_world import evaluate_world

            return evaluate_world(self, folder, spec)
        result = self.play(folder, spec)
        path = write_result(self.file(folder.path, spec, result), result)
        if self.json:
            print(path.read_text(), end="")
        else:
            print(f"score   {score_text(result)}{benchmark_text(result)}\nfile    {path}")
        return 0

    def evaluate_saved(self) -> int:
        """Play with an agent that `Agent.save` wrote, and print; its folder stays as it is."""
        from tokenworlds.commands.choices import open_agent_of
        from tokenworlds.commands.running import score_text
        from tokenworlds.evaluation.processes import cores
        from tokenworlds.evaluation.results import to_document
        from tokenworlds.training.evaluation import evaluate_saved

        if self.world:
            raise UserError(f"--world takes a run, because it reads replay; {self.run} has none")
        opened = open_agent_of(self, self.checkpoint)
        result = evaluate_saved(
            opened,
            episodes=self.episodes,
            protocol=self.protocol,
            seed=self.seed,
            temperature=self.temperature,
            processes=self.processes or cores(),
        )
        if self.json:
            print(json.dumps(to_document(result), indent=2))
        else:
            print(f"score   {score_text(result)}{benchmark_text(result)}")
        return 0

    def play(self, folder: "RunFolder", spec: "RunSpec") -> "Result":
        from tokenworlds.evaluation.processes import cores
        from tokenworlds.training.evaluation import evaluate_run, load_agent

        env = replace(spec.env, protocol=self.protocol or spec.env.protocol)
        chosen = folder.chosen(self.checkpoint)
        for text in chosen.skipped:
            print(f"note: {text}", file=sys.stderr)
        return evaluate_run(
            load_agent(spec, chosen.checkpoint),
            spec,
            episodes=self.episodes or spec.recipe.evaluation.final_episodes,
            env=env,
            seed=self.seed,
            temperature=self.temperature,
            processes=self.processes or cores(),
        )

    def file(self, folder: Path, spec: "RunSpec", result: "Result") -> Path:
        """evaluation.json for the recipe's final evaluation, else a file in evaluations/."""
        from tokenworlds.evaluation.results import FILE, FOLDER, name_of

        usual = spec.recipe.evaluation
        played = (result.env, result.protocol, result.seed, result.temperature)
        same = played == (spec.env.name, spec.env.protocol, spec.seed, usual.temperature)
        if same and len(result.returns) == usual.final_episodes and self.checkpoint == "last":
            return folder / FILE
        (folder / FOLDER).mkdir(exist_ok=True)
        return folder / FOLDER / name_of(result, usual.temperature)
