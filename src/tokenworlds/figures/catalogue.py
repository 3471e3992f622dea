"""Every figure by name: what it shows and what it reads. Imports neither torch nor matplotlib."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tokenworlds.core.errors import UserError

if TYPE_CHECKING:
    from tokenworlds.figures.picture import Picture, Request

Options = frozenset[str]
RUN = frozenset({"run", "recipe", "trust", "seed", "steps"})


@dataclass(frozen=True, slots=True)
class FigureEntry:
    """A figure of a paper. `module` makes it, `options` are those it takes besides the common ones.

    `examples` are the recipe and environment of the paper's runs, if the figure needs runs.
    """

    name: str
    paper: str
    about: str
    module: str
    options: Options
    examples: tuple[tuple[str, str], ...] = ()

    def make(self, request: "Request") -> "Picture":
        if self.examples and not request.runs:
            raise UserError(self.how_to())
        module = importlib.import_module(f"{__package__}.{self.module}")
        make: Callable[[Request], Picture] = module.make
        picture = make(request)
        return replace(picture, caption=f"After {self.source}. {picture.caption}")

    @property
    def source(self) -> str:
        return f"{self.paper}, figure {self.name.rpartition('-')[2]}"

    def how_to(self) -> str:
        """One sentence with the commands that train the runs and draw the figure."""
        train = " and ".join(
            f"'tokenworlds train {recipe} --env {env} --size paper'"
            for recipe, env in self.examples
        )
        runs = " ".join(
            f"--run runs/{recipe}-{env.replace(':', '-')}-s0" for recipe, env in self.examples
        )
        many = len(self.examples) > 1
        return (
            f"{self.name} needs {'runs' if many else 'a run'}: train {'them' if many else 'one'} "
            f"with {train} (--size nano takes minutes), then draw it with "
            f"'tokenworlds figure {self.name} {runs}'"
        )


def tokens_of(number: int, recipe: str, game: str, resolution: int) -> FigureEntry:
    about = f"Tokens of {game} at {resolution}x{resolution} over an episode, and which change."
    example = ((recipe, f"atari:{game}"),)
    return FigureEntry(f"step-vq-{number}", "STEP-VQ", about, "token_changes", RUN, example)


ENTRIES = (
    FigureEntry(
        "step-vq-2a",
        "STEP-VQ",
        "Training cost of the VQ world models, measured here, beside the published speedups.",
        "training_cost",
        frozenset({"bench", "size", "env", "seconds", "threads"}),
    ),
    FigureEntry(
        "step-vq-2b",
        "STEP-VQ",
        "Parameters of VQ and of the categorical bottleneck by resolution and codebook size.",
        "parameters",
        frozenset({"size"}),
    ),
    tokens_of(7, "step-vq-m", "UpNDown", 64),
    tokens_of(8, "step-vq-m", "Breakout", 64),
    tokens_of(9, "step-vq-m-96", "Assault", 96),
    tokens_of(10, "step-vq-m", "BankHeist", 64),
    FigureEntry(
        "git-storm-16",
        "GIT-STORM",
        "KL divergence of the dynamics over training.",
        "dynamics_kl",
        frozenset({"run", "recipe", "trust"}),
        (("git-storm", "atari:Boxing"), ("storm", "atari:Boxing")),
    ),
    FigureEntry(
        "git-storm-17",
        "GIT-STORM",
        "How probable the prior makes each token at every step of a dream.",
        "prior_probabilities",
        RUN,
        (("git-storm", "atari:Boxing"), ("storm", "atari:Boxing")),
    ),
    FigureEntry(
        "swm-8",
        "Smaller World Models",
        "Human-normalised scores of 36 games on a symmetrical logarithmic scale.",
        "score_bars",
        frozenset({"run", "recipe", "trust"}),
    ),
    FigureEntry(
        "delta-iris-3",
        "Δ-IRIS",
        "Two dreams under the same actions: random and predicted Δ-tokens.",
        "random_tokens",
        RUN,
        (("delta-iris", "crafter"),),
    ),
)
FIGURES: Mapping[str, FigureEntry] = {entry.name: entry for entry in ENTRIES}
