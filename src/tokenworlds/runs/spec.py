"""The specification of a run: all its inputs apart from package versions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tokenworlds.core.precision import Precision
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.runs.recipe import Recipe

MOST_THREADS = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Extension:
    """A run was given more steps at this `step` of the run, after agent `steps` and `updates`."""

    step: int
    steps: int
    updates: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """A recipe at a size, an environment, a seed, and how to compute.

    `own_files` are the files of the user's modules that the recipe's classes come from. If the run
    was `extended`, `recipe.steps` are those of the whole run.
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
    own_files: Mapping[str, str] = field(default_factory=dict)
    extended: Extension | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.threads <= MOST_THREADS:
            raise ValueError(f"threads={self.threads} is not allowed: it takes 1 to {MOST_THREADS}")
