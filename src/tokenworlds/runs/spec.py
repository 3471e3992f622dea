"""The specification of a run: all its inputs apart from package versions."""

from dataclasses import dataclass

from tokenworlds.core.precision import Precision
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.runs.recipe import Recipe


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """A recipe at a size, an environment, a seed, and how to compute."""

    recipe_name: str
    size: str
    recipe: Recipe
    env: EnvSpec
    seed: int
    threads: int
    device: str = "cpu"
    precision: Precision = "float32"
    compiled: bool = False
