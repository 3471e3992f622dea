"""Recipes of your own: another recipe with differences, and one with a size of its own.

tokenworlds train examples/my_recipe.py:with_fsq
tokenworlds train examples/my_recipe.py:short_memory --size debug
"""

from my_tokenizer import FSQ
from tokenworlds.core.config import variant
from tokenworlds.recipes.blocks import recipe
from tokenworlds.recipes.step_vq import step_vq_m
from tokenworlds.runs.recipe import Recipe

with_fsq = step_vq_m.changed({"world.tokenizer": FSQ.Config(levels=(4, 4, 4))})

DEBUG = {**step_vq_m.sizes["nano"], "steps": 500, "num_envs": 4, "schedule.warm_up": 256}


@recipe(like=step_vq_m, sizes={"debug": DEBUG})
def short_memory() -> Recipe:
    """STEP-VQ that acts on the last four steps."""
    return variant(step_vq_m(), {"world.memory": 4})
