"""`tokenworlds evaluate`."""

import json
import os
import sys
from dataclasses import dataclass, replace
from typing import Annotated

from tyro.conf import arg

from tokenworlds.commands.options import Count, Json, OptionalSeed, Run, default_text
from tokenworlds.core.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Evaluate a trained agent and a random policy; writes evaluation.json."""

    run: Run
    """Folder of the run."""
    episodes: Annotated[Count, default_text("the recipe's final_episodes")] = None
    """Episodes to play."""
    protocol: Annotated[str, arg(metavar="NAME"), default_text("the run's")] = ""
    """Protocol of the environment."""
    seed: Annotated[OptionalSeed, default_text("the run's")] = None
    """Seed of the episodes and of the agent's actions."""
    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        from tokenworlds.commands import choices
        from tokenworlds.commands.running import score_text
        from tokenworlds.evaluation.results import FILE, to_document, write_result
        from tokenworlds.training.evaluation import evaluate_run, load_agent

        folder, spec = choices.open_run(self.run)
        if not os.access(folder.path, os.W_OK):
            raise UserError(f"cannot write to {folder.path}: the folder is read-only")
        env = replace(spec.env, protocol=self.protocol or spec.env.protocol)
        trained = load_agent(folder, spec)
        for text in trained.warnings:
            print(f"note: {text}", file=sys.stderr)
        episodes = self.episodes or spec.recipe.evaluation.final_episodes
        agent, progress = trained.agent, trained.progress
        result = evaluate_run(agent, spec, progress, episodes=episodes, env=env, seed=self.seed)
        path = write_result(folder.path / FILE, result)
        if self.json:
            print(json.dumps(to_document(result), indent=2))
        else:
            print(f"score   {score_text(result)}\nfile    {path}")
        return 0
