"""What a run is a function of, package versions apart."""

from dataclasses import dataclass

from tokenworlds.core.precision import Precision
from tokenworlds.envs.spec import EnvSpec
from tokenworlds.runs.recipe import Recipe


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """One run: a recipe at a size, an environment, a seed, and how it is computed.

    What was written down without precision and compilation was computed as these are by default.
    """

    recipe_name: str
    size: str
    recipe: Recipe
    env: EnvSpec
    seed: int
    threads: int
    device: str = "cpu"
    precision: Precision = "float32"
    compiled: bool = False
