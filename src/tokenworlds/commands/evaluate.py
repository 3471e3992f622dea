"""`tokenworlds evaluate`."""

import json
import os
import sys
from dataclasses import dataclass, replace
from typing import Annotated

from tyro.conf import arg

from tokenworlds.commands.options import Count, Json, OptionalSeed, Run, unstated
from tokenworlds.core.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Let a trained agent play, and a random policy beside it; writes evaluation.json."""

    run: Run
    """Folder of the run."""
    episodes: Annotated[Count, unstated("the recipe's final_episodes")] = None
    """Episodes to play."""
    protocol: Annotated[str, arg(metavar="NAME"), unstated("the run's")] = ""
    """By which rules the environment is played."""
    seed: Annotated[OptionalSeed, unstated("the run's")] = None
    """What games are drawn from."""
    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        """Play, write down and tell."""
        from tokenworlds.core.process import prepare_process

        prepare_process()
        from tokenworlds.commands import choices
        from tokenworlds.commands.running import verdict
        from tokenworlds.evaluation.results import FILE, to_document, write_result
        from tokenworlds.training.evaluation import judge, load_agent

        folder, spec = choices.open_run(self.run)
        if not os.access(folder.path, os.W_OK):
            raise UserError(f"cannot write to {folder.path}, where evaluation.json is to go")
        env = replace(spec.env, protocol=self.protocol or spec.env.protocol)
        trained = load_agent(folder, spec)
        for text in trained.told:
            print(f"note: {text}", file=sys.stderr)
        episodes = self.episodes or spec.recipe.evaluation.final_episodes
        agent, progress = trained.agent, trained.progress
        result = judge(agent, spec, progress, episodes=episodes, env=env, seed=self.seed)
        path = write_result(folder.path / FILE, result)
        if self.json:
            print(json.dumps(to_document(result), indent=2))
        else:
            print(f"score   {verdict(result)}\nfile    {path}")
        return 0
