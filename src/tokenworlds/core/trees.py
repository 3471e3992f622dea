"""Nested dataclasses, tuples and dicts of tensors: map over them, or flatten them to names."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

Tree = TypeVar("Tree")


def map_tensors(function: Callable[..., Tensor], tree: Tree, *others: Tree) -> Tree:
    """Apply a function to each tensor of a tree and the tensors at the same place in others."""
    if isinstance(tree, Tensor):
        return cast(Tree, function(tree, *others))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        changed = {
            field.name: map_tensors(
                function,
                getattr(tree, field.name),
                *(getattr(other, field.name) for other in others),
            )
            for field in dataclasses.fields(tree)
        }
        return cast(Tree, dataclasses.replace(tree, **changed))
    if isinstance(tree, tuple):
        parts = zip(tree, *cast(tuple[tuple[Any, ...], ...], others), strict=True)
        return cast(Tree, tuple(map_tensors(function, *part) for part in parts))
    if isinstance(tree, Mapping):
        return cast(
            Tree,
            {
                key: map_tensors(function, value, *(other[key] for other in others))  # type: ignore[index]
                for key, value in tree.items()
            },
        )
    return tree


def where_rows(condition: Tensor, chosen: Tree, other: Tree) -> Tree:
    """Rows (first axis) of one tree where the condition holds, of the other elsewhere."""

    def pick(a: Tensor, b: Tensor) -> Tensor:
        shape = (-1,) + (1,) * (a.dim() - 1)
        return torch.where(condition.view(shape), a, b)

    return map_tensors(pick, chosen, other)


def named_tensors(tree: Any, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Each tensor of a tree with its dotted path."""
    if isinstance(tree, Tensor):
        yield prefix, tree
        return
    for name, child in children(tree):
        yield from named_tensors(child, f"{prefix}.{name}" if prefix else name)


def children(tree: Any) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        yield from ((field.name, getattr(tree, field.name)) for field in dataclasses.fields(tree))
    elif isinstance(tree, tuple):
        yield from ((str(index), child) for index, child in enumerate(tree))
    elif isinstance(tree, Mapping):
        yield from ((str(key), child) for key, child in tree.items())


def restore_tensors(tree: Tree, saved: Mapping[str, Tensor], prefix: str = "") -> Tree:
    """The tree with each tensor replaced by the saved one of the same path."""
    names = iter([name for name, _ in named_tensors(tree, prefix)])
    return map_tensors(lambda tensor: saved[next(names)].to(tensor.device), tree)
