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
class StopRule:
    """Stop early at a mean return, or after `patience` evaluations without a better one (0: never).

    The returns are those of the evaluations during training.
    """

    at_return: float | None = None
    patience: int = 0

    def __post_init__(self) -> None:
        if self.patience < 0:
            raise ValueError(f"patience={self.patience} is not allowed: it takes 0 or more")

    def verdict(self, score: float, best: float, since: int, stale: int) -> str:
        """Why the run stops after an evaluation; empty if it goes on.

        The last `stale` evaluations were no better than that of step `since`.
        """
        if self.at_return is not None and score >= self.at_return:
            return f"return {score:.4g} reached {self.at_return:g}"
        if self.patience and stale >= self.patience:
            return f"{stale} evaluations were no better than {best:.4g} at step {since:,}"
        return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """A recipe at a size, an environment, a seed, and how to compute.

    `own_files` are the files of the user's modules that the recipe's classes come from. If the run
    was `extended`, `recipe.steps` are those of the whole run. `stop` may end it earlier. A batch is
    spread over `ranks` processes.
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
    stop: StopRule | None = None
    ranks: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.threads <= MOST_THREADS:
            raise ValueError(f"threads={self.threads} is not allowed: it takes 1 to {MOST_THREADS}")
        if self.ranks < 1:
            raise ValueError(f"ranks={self.ranks} is not allowed: it takes 1 or more")
