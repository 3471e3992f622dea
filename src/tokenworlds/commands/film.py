"""`tokenworlds film`."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from tokenworlds.commands.errors import check_output
from tokenworlds.commands.options import (
    AgentOptions,
    Json,
    OptionalSeed,
    Temperature,
    default_text,
    whole_number,
)
from tokenworlds.core.errors import UserError

if TYPE_CHECKING:
    from tokenworlds.agent import OpenedAgent
    from tokenworlds.evaluation.films import Shot

FORMATS = (".gif", ".mp4", ".webp")
QUIET = 5.0


class Ends:
    """The last shot of each episode; says on stderr every few seconds how far the film is."""

    def __init__(self) -> None:
        self.shots: list[Shot] = []
        self._said = time.monotonic()

    def show(self, shot: "Shot") -> None:
        if shot.over or shot.cut:
            self.shots.append(shot)
        if time.monotonic() - self._said >= QUIET:
            self._said = time.monotonic()
            print(f"filming episode {shot.episode + 1}, step {shot.step:,}", file=sys.stderr)


@dataclass(frozen=True, kw_only=True)
class Film(AgentOptions):
    """Film an agent in the real game, with its returns."""

    out: Annotated[str, arg(metavar="FILE")] = "film.webp"
    """File to write: .webp, .gif, or .mp4 (extra video)."""
    episodes: Annotated[int, whole_number(1)] = 3
    """Episodes to play."""
    longest: Annotated[int, whole_number(1)] = 1000
    """Agent steps after which the film leaves an episode."""
    fps: Annotated[int, whole_number(1)] = 10
    """Agent steps that are shown in a second."""
    checkpoint: Annotated[str, arg(metavar="{best,last,STEP}")] = "last"
    """Checkpoint to play with; the best is that of the highest evaluation during training."""
    temperature: Annotated[Temperature, default_text("the recipe's")] = None
    """0 takes the most likely action, 1 samples from the policy."""
    seed: Annotated[OptionalSeed, default_text("the run's")] = None
    """Seed of the episodes and of the agent's actions."""
    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        from tokenworlds.evaluation.animation import check_encoder

        out = check_output(Path(self.out), FORMATS)
        check_encoder(out)
        shots = self.shoot(self.open(), out)
        if self.json:
            document = {
                "out": str(out),
                "returns": [shot.score for shot in shots],
                "lengths": [shot.step for shot in shots],
                "cut": [shot.cut for shot in shots],
            }
            print(json.dumps(document, indent=2))
            return 0
        listed = (f"{shot.score:g}{' (cut)' if shot.cut else ''}" for shot in shots)
        print(f"returns {', '.join(listed)}\nfile    {out}")
        return 0

    def open(self) -> "OpenedAgent":
        from tokenworlds.commands.choices import open_agent_of

        return open_agent_of(self, self.checkpoint)

    def shoot(self, opened: "OpenedAgent", out: Path) -> "list[Shot]":
        """Write the film; returns the last shot of each episode."""
        from tokenworlds.evaluation.animation import write_animation
        from tokenworlds.evaluation.films import Reel, play_episodes
        from tokenworlds.sharing.saving import training_of

        recipe, spec, env = opened.agent.recipe, opened.spec, opened.env
        if recipe is None or env is None:
            raise UserError(f"{self.run} does not name its environment: save it again from its run")
        own_seed = 0 if spec is None else spec.seed
        usual = recipe.evaluation.temperature
        shots = play_episodes(
            opened.agent,
            env,
            episodes=self.episodes,
            seed=own_seed if self.seed is None else self.seed,
            temperature=usual if self.temperature is None else self.temperature,
            longest=self.longest,
        )
        training = training_of(opened)
        name = Path(self.run).name if training is None else training.recipe
        ends, reel = Ends(), Reel(f"{name} on {env.name}", self.episodes, self.fps)
        write_animation(out, reel.images(shots, ends.show), 1 / self.fps)
        return ends.shots
