"""The layout of a file of weights, as a table."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

Table = dict[str, tuple[str, ...]]
"""By weight of our agent, the names in the file; several are concatenated along the first axis."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """A file of named tensors, and the recipe whose agent it holds.

    Names that match `ignored` are buffers and networks of losses; a file may lack them. `zeros` are
    weights of ours that only training changes. The first axis of `actions` is the number of them.
    The agent is in as many `files`, whose tensors `prepare` may divide before the table is read.
    Weights of ours that begin with `fresh` cannot be used without what the file lacks: they must
    be there, but are initialised anew, and `note` says why.
    """

    recipe: str
    size: str
    source: str
    table: Mapping[str, tuple[str, ...]]
    ignored: re.Pattern[str]
    zeros: frozenset[str]
    actions: str
    files: int = 1
    prepare: Callable[[dict[str, Tensor]], dict[str, Tensor]] = dict
    fresh: str = ""
    note: str = ""


def both(ours: str, *theirs: str) -> Table:
    """The weight and the bias of a layer."""
    kinds = ("weight", "bias")
    return {f"{ours}.{kind}": tuple(f"{each}.{kind}" for each in theirs) for kind in kinds}


def plain(ours: str, *theirs: str) -> Table:
    """The weight of a layer without bias."""
    return {f"{ours}.weight": tuple(f"{each}.weight" for each in theirs)}


def joined(tables: Iterable[Table]) -> Table:
    """One table; no weight may be in two of them."""
    whole: Table = {}
    for table in tables:
        if twice := whole.keys() & table.keys():
            raise ValueError(f"{min(twice)} is in the table twice")
        whole |= table
    return whole


def numbered(ours: str, layers: Iterable[Table]) -> Iterator[Table]:
    """The tables of consecutive layers, whose names are relative to the layer."""
    for number, layer in enumerate(layers):
        yield {f"{ours}.{number}{name}": theirs for name, theirs in layer.items()}
