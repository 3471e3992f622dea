"""What a run is a function of, package versions apart."""

from dataclasses import dataclass

from tokenworlds.envs.spec import EnvSpec
from tokenworlds.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """One run: a recipe at a size, an environment, a seed, and how it is computed."""

    recipe_name: str
    size: str
    recipe: Recipe
    env: EnvSpec
    seed: int
    threads: int
    device: str = "cpu"
