"""Which parts work together: every combination is built and trained for a few updates.

A combination is a recipe with some parts replaced, as `--set` replaces them. Settings of size are
made small; those that decide whether parts fit, such as the number of tokens, stay as they are.
"""

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from tokenworlds import behaviours, priors, sequence, tokenizers
from tokenworlds.core.errors import UserError
from tokenworlds.core.overrides import members
from tokenworlds.core.progress import Phase
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.recipes.catalogue import load
from tokenworlds.recipes.learners import assign
from tokenworlds.runs.recipe import Recipe
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.dry_run import dry_run, naming_mismatches
from tokenworlds.training.trainer import Trainer

SIZE, UPDATES, ROWS = "nano", 2, 2
TOKENIZER, SEQUENCE, PRIOR = "world.tokenizer", "world.sequence", "world.prior"
BEHAVIOUR = "behaviour"
LATENT = "step-vq-t"
WORLDS = {
    "latent": LATENT,
    "iris": "iris",
    "delta_iris": "delta-iris",
    "grid": "swm",
    "rssm": "dreamer-v3",
    "real": "ppo",
}
"""A recipe for each world; a world of another recipe comes with its own learners."""
TOKEN_WORLDS = ("iris", "delta_iris", "grid")
ROOM = dict.fromkeys(("iris", "delta_iris"), ("world.sequence.positions=600",))
"""A token transformer needs a position for each token, and some tokenizers make many."""
DEFAULTS = {TOKENIZER: "vq", SEQUENCE: "transformer", PRIOR: "factorised"}
STRIDED = ("encoder.filters=[8,8,16,16]", "encoder.blocks=1")
SMALL: Mapping[str, Sequence[str]] = {
    "world.tokenizer=attentive_vq": ("width=8", "blocks=1", "attention=[8]", "code_width=16"),
    "world.tokenizer=bernoulli_vq": STRIDED,
    "world.tokenizer=gaussian": STRIDED,
    "world.tokenizer=categorical": ("filters=[8,8,8]", "strides=[2,2,2]"),
    "world.prior=pixelcnn": ("channels=8", "layers=2"),
    "world.prior=maskgit": ("embedding=16", "layers=1", "heads=2", "feedforward=16"),
    "behaviour=pixel_actor_critic": ("encoder.layers.width=8", "recurrent=16"),
    "behaviour=dreamer_actor_critic": ("hidden=[16]",),
    "behaviour=ppo": ("epochs=1", "network.filters=8", "network.width=16", "network.kernel=1"),
}
"""Small sizes of new parts whose own are large."""


@dataclass(frozen=True, slots=True)
class Combination:
    """A recipe, and the parts that replace its own by the path of their setting."""

    recipe: str
    parts: Mapping[str, str]
    settings: Sequence[str] = ()
    """Further assignments."""

    def assignments(self, present: Recipe) -> list[str]:
        """What `--set` takes: the parts, then small sizes where a part is new."""
        swaps = {path: f"{path}={name}" for path, name in self.parts.items()}
        changed = assign(present, list(swaps.values()))
        new = [path for path in swaps if kind_at(changed, path) != kind_at(present, path)]
        sizes = [f"{path}.{size}" for path in new for size in SMALL.get(swaps[path], ())]
        return [
            *swaps.values(),
            *sizes,
            f"behaviour.horizon={ROWS}",
            *few_rows(changed),
            *self.settings,
        ]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` is the sentence that refuses a combination; empty if it trains.

    `shown` tells whether `show` accepts it, which must be the same.
    """

    combination: Combination
    reason: str = ""
    shown: bool = True
    seconds: float = 0.0

    @property
    def works(self) -> bool:
        return not self.reason


@dataclass(frozen=True, slots=True)
class Table:
    """Combinations in rows and columns; a cell without one is left out."""

    title: str
    corner: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Combination | None]] = field(default_factory=dict)

    @property
    def combinations(self) -> Iterator[Combination]:
        return (each for row in self.rows.values() for each in row if each is not None)


def tables(quick: bool = False) -> list[Table]:
    """All tables; `quick` leaves out most sequence models of the latent world."""
    return [latent_table(quick), behaviour_table(), *token_world_tables()]


def latent_table(quick: bool) -> Table:
    """Every tokenizer, prior and sequence model in the latent world."""
    columns, rows = members(sequence), {}
    for tokenizer, prior in itertools.product(members(tokenizers), members(priors)):
        parts = {TOKENIZER: tokenizer, PRIOR: prior}
        usual = all(DEFAULTS[path] == name for path, name in parts.items())
        wanted = [not quick or usual or name == DEFAULTS[SEQUENCE] for name in columns]
        rows[f"{tokenizer} + {prior}"] = [
            Combination(LATENT, {**parts, SEQUENCE: name}) if tried else None
            for name, tried in zip(columns, wanted, strict=True)
        ]
    title = f"Tokenizers, priors and sequence models in the world `latent` (`{LATENT}`)"
    return Table(title, "tokenizer + prior", columns, rows)


def behaviour_table() -> Table:
    columns = members(behaviours)
    rows = {
        f"{world} (`{recipe}`)": [Combination(recipe, {BEHAVIOUR: name}) for name in columns]
        for world, recipe in WORLDS.items()
    }
    return Table("Behaviours in every world", "world", columns, rows)


def token_world_tables() -> Iterator[Table]:
    for kind, path, family in (
        ("Tokenizers", TOKENIZER, tokenizers),
        ("Sequence models", SEQUENCE, sequence),
    ):
        columns = members(family)
        rows = {
            f"{world} (`{WORLDS[world]}`)": [
                Combination(WORLDS[world], {path: name}, room(world, path)) for name in columns
            ]
            for world in TOKEN_WORLDS
        }
        yield Table(f"{kind} in the other worlds of tokens", "world", columns, rows)


def room(world: str, path: str) -> Sequence[str]:
    return ROOM.get(world, ()) if path == TOKENIZER else ()


def judge(combination: Combination, env: str) -> Verdict:
    """Build the combination, try it as `show` does, and train it."""
    begun, shown = time.perf_counter(), False

    def accepted() -> None:
        nonlocal shown
        shown = True

    try:
        train_briefly(combination, env, accepted)
        reason = ""
    except UserError as error:
        reason = " ".join(str(error).split())
    return Verdict(combination, reason, shown, time.perf_counter() - begun)


def train_briefly(combination: Combination, env: str, accepted: Callable[[], None]) -> None:
    """Collect the steps of one segment, then update every learner. Raises `UserError`."""
    present = load(combination.recipe, SIZE, env).recipe
    recipe = assign(present, combination.assignments(present))
    spec = RunSpec(
        recipe_name=combination.recipe,
        size=SIZE,
        recipe=recipe,
        env=EnvSpec(env, "", recipe.resolution, recipe.grey),
        seed=0,
        threads=1,
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        naming_mismatches(),
        closing(Trainer(spec, Path(folder))) as trainer,
    ):
        dry_run(trainer.agent, recipe, trainer.envs.frame_shape)
        accepted()
        longest = max(learning.length for learning in recipe.learning.values())
        trainer.collect(Phase(longest + 1, {}))
        for name in [*recipe.learning] * UPDATES:
            trainer.update(name)


def few_rows(recipe: Recipe) -> list[str]:
    """Small batches: a row for each environment, which the latest steps need."""
    return [f"num_envs={ROWS}", *(f"learning.{name}.batch={ROWS}" for name in recipe.learning)]


def kind_at(recipe: Recipe, path: str) -> type[object]:
    """The class of the configuration at a path."""
    return type(reduce(getattr, path.split("."), recipe))
