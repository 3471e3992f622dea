from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from tokenworlds.core.trees import map_tensors, named_tensors, restore_tensors, where_rows


@dataclass(frozen=True, slots=True)
class Memory:
    key: Tensor
    length: int


def tree(value: float) -> dict[str, Any]:
    """Two rows in each tensor."""
    return {
        "memory": (Memory(torch.full((2, 3), value), 7), torch.full((2,), value)),
        "state": torch.full((2, 1, 4), value),
        "name": "kept",
    }


def test_mapping_changes_every_tensor_and_nothing_else() -> None:
    doubled = map_tensors(lambda tensor: 2 * tensor, tree(1.0))
    assert {name: tensor.unique().item() for name, tensor in named_tensors(doubled)} == {
        "memory.0.key": 2.0,
        "memory.1": 2.0,
        "state": 2.0,
    }
    assert doubled["memory"][0].length == 7
    assert doubled["name"] == "kept"


def test_mapping_over_several_trees_pairs_tensors_by_place() -> None:
    total = map_tensors(lambda a, b, c: a + b + c, tree(1.0), tree(2.0), tree(4.0))
    assert all(torch.all(tensor == 7) for _, tensor in named_tensors(total))


def test_trees_of_different_length_do_not_mix() -> None:
    with pytest.raises(ValueError, match="zip"):
        map_tensors(torch.add, (torch.ones(1),), (torch.ones(1), torch.ones(1)))


def test_rows_are_selected_one_by_one() -> None:
    mixed = where_rows(torch.tensor([True, False]), tree(1.0), tree(2.0))
    for _, tensor in named_tensors(mixed):
        assert torch.all(tensor[0] == 1)
        assert torch.all(tensor[1] == 2)


def test_a_single_tensor_is_a_tree_too() -> None:
    mixed = where_rows(torch.tensor([False, True]), torch.zeros(2), torch.ones(2))
    assert mixed.tolist() == [1.0, 0.0]
    assert [name for name, _ in named_tensors(torch.zeros(1), "carry")] == ["carry"]


def test_restoring_the_named_tensors_rebuilds_the_tree() -> None:
    saved = dict(named_tensors(tree(3.0), "carry"))
    restored = restore_tensors(tree(0.0), saved, "carry")
    assert restored["memory"][0].length == 7
    for name, tensor in named_tensors(restored, "carry"):
        assert torch.equal(tensor, saved[name])


def test_a_tensor_that_was_not_saved_is_an_error() -> None:
    with pytest.raises(KeyError, match="state"):
        restore_tensors({"state": torch.zeros(1)}, {"other": torch.zeros(1)})
