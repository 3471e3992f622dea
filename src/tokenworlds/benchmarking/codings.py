"""Frames coded on their own, where codes are known from update to update."""

from tokenworlds.core.progress import Progress
from tokenworlds.runs.recipe import Recipe, build_schedule
from tokenworlds.training.token_cache import Coding

CODES = "codes"
BATCH_OF = "world"
"""The learner whose batch is coded, to be measured."""


def frames_coded(recipe: Recipe) -> int:
    """How many a run codes at most: all that its learners are shown, and from one update of their
    coder to the next each frame of replay once."""
    world: type[Coding] = recipe.world.owner
    steps = shown = known = coded = 0
    for phase in build_schedule(recipe).phases(Progress()):
        steps += phase.collect * recipe.num_envs
        for learner, count in phase.updates.items():
            if learner != world.coder:
                learning = recipe.learning[learner]
                shown += count * learning.batch * (learning.length - world.codes_look_back)
                known = min(shown, steps)
            elif count:
                coded, shown, known = coded + known, 0, 0
    return coded + known


def codings_per_step(recipe: Recipe, frames: int) -> float:
    """How often so many frames are coded together for each agent step, over a whole run."""
    return frames_coded(recipe) / frames / build_schedule(recipe).goal.steps
