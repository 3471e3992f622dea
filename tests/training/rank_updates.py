"""Train recipes a little, in one process or as a rank of several, and save what was computed.

    python rank_updates.py FOLDER PRECISION RECIPE...

writes FOLDER/rank-R-of-N.pt. N is 1 unless the variables of torchrun say otherwise. Settings may
follow the name of a recipe, each after a plus.
"""

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tokenworlds.core.errors import UserError
from tokenworlds.core.group import Group, joined
from tokenworlds.core.progress import Phase
from tokenworlds.core.sharing import share_of, sharing
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.envs.toys import Catch
from tokenworlds.envs.vector import VectorEnv
from tokenworlds.nets.codebooks import AveragedCodebook, Codebook, UnitCodebook
from tokenworlds.recipes.catalogue import load
from tokenworlds.recipes.learners import assign
from tokenworlds.replay.sampling import Latest
from tokenworlds.runs.recipe import Recipe
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.trainer import Trainer

ENVS, ROWS, STEPS, ROUNDS = 3, 5, 10, 2
"""Odd numbers, so that the ranks of a pair have different shares."""
SOME_ROWS = {"cb-m": 2, "step-vq-t": 3}
"""Recipes of which not all rows train the tokenizer; of two rows, rank 1 has none."""


def tiny(name: str) -> Recipe:
    base, *settings = name.split("+")
    recipe = assign(load(base, "nano").recipe, settings)
    rows = ENVS if isinstance(recipe.sampler, Latest.Config) else ROWS
    learning = {
        name: replace(each, batch=rows, length=min(each.length, STEPS))
        for name, each in recipe.learning.items()
    }
    world: Any = recipe.world
    behaviour: Any = recipe.behaviour
    if name in SOME_ROWS:
        world = replace(world, tokenizer_rows=SOME_ROWS[name])
    sequence: Any = getattr(world, "sequence", None)
    if hasattr(sequence, "dropout"):  # It is 0 at this size.
        world = replace(world, sequence=replace(sequence, dropout=0.2))
    horizon = min(getattr(behaviour, "horizon", 1), 3)
    behaviour = replace(behaviour, horizon=horizon)
    return replace(recipe, num_envs=ENVS, learning=learning, world=world, behaviour=behaviour)


def computed(name: str, folder: Path, group: Group) -> Iterator[tuple[str, Tensor]]:
    """Losses, metrics and gradients of each update, then the whole state of training."""
    recipe = tiny(name)
    env = EnvSpec("catch", size=recipe.resolution, grey=recipe.grey)
    spec = RunSpec(recipe_name=name, size="nano", recipe=recipe, env=env, seed=0, threads=1)
    trainer = Trainer(spec, folder, group=group)
    trainer.replay.clear()
    trainer.collect(Phase(2 * STEPS, {}, random=True))
    for number in range(ROUNDS):
        trainer.collect(Phase(2, {}))
        for learner in trainer.learners.values():
            for each, value in trainer.update(learner.name).items():
                yield f"metric {number} {each}", value
            for each, parameter in learner.module.named_parameters():
                if parameter.grad is not None:
                    yield f"gradient {number} {learner.name} {each}", parameter.grad.clone()
    for kind, tensors in trainer.checkpoint().tensors.items():
        yield from ((f"{kind} {each}", value.clone()) for each, value in tensors.items())
    records = trainer.replay.records
    for each in records.dtype.names or ():
        yield f"replay {each}", torch.from_numpy(records[each].copy())
    trainer.close()


def codebooks(group: Group) -> Iterator[tuple[str, Tensor]]:
    """Codebooks that learn from rows of which some count, and revive many of their codes."""
    books = {
        "moving averages": Codebook.Config(codes=8, width=3, revive_below=0.5).build(),
        "corrected averages": AveragedCodebook.Config(codes=8, width=3).build(),
        "unit length": UnitCodebook.Config(codes=64, width=3, revivals=None, spare=0.1).build(),
    }
    for name, book in books.items():
        torch.manual_seed(0)
        data = torch.randn(4, ROWS, 2, 6, 3)
        mask = torch.rand(4, ROWS, 2) < 0.7
        mask[3, 2:] = False
        for rows, counted in zip(data, mask, strict=True):
            share = share_of(group, ROWS)
            with sharing(group, share):
                index = book.distance(rows).argmin(-1)[share.rows]
                here = counted[share.rows]
                book.update(rows[share.rows][here], index[here])
        yield from ((f"{name} {each}", value.clone()) for each, value in book.named_buffers())


def failure_of_one_rank(group: Group) -> str:
    """What a rank hears if the last environment, which the last rank steps, fails."""
    envs = VectorEnv(EnvSpec("catch"), num_envs=2, seed=0, group=group)
    if group.rank == group.size - 1:
        Catch.step = None  # type: ignore[assignment]
    try:
        envs.step(torch.zeros(2, dtype=torch.long).numpy())
    except UserError as error:
        return str(error)
    return "nothing"


def compute_in_double() -> None:
    """Compute in float64 where the agents ask for float32: what then differs is no rounding."""
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double  # type: ignore[method-assign]
    torch.float32 = torch.float64


def main(target: Path, precision: str, names: list[str]) -> None:
    if precision == "double":
        compute_in_double()
    with joined() as group:
        found = {}
        for name in names:
            # All ranks read the files that rank 0 writes.
            folder = Path(group.lead(lambda: tempfile.mkdtemp(dir=target)))
            found[name] = dict(computed(name, folder, group))
        found["codebooks"] = dict(codebooks(group))
        result = {"found": found, "failure": failure_of_one_rank(group)}
        torch.save(result, target / f"rank-{group.rank}-of-{group.size}.pt")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
