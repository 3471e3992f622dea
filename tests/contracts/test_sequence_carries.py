"""The contract of every sequence model for its carry."""

from typing import Any

import pytest
import torch
from sequence_members import (
    REACH,
    assert_close,
    build,
    clone,
    found,
    history,
    inputs,
    no_reset,
    repeat_step,
)

from tokenworlds.core.trees import named_tensors, restore_tensors, where_rows


@pytest.fixture(params=found(), ids=lambda owner: owner.__name__)
def owner(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=list(REACH))
def model(owner: type[Any], request: pytest.FixtureRequest) -> Any:
    return build(owner, request.param)


@torch.no_grad()
def test_rows_with_histories_of_different_lengths_can_be_joined(model: Any) -> None:
    """A world replaces the carry of rows that are reset: rows may share no counter."""
    short, long = history(model, 2, 2), history(model, 2, 9)
    joined = where_rows(torch.tensor([True, False]), short, long)
    x = inputs(model, 2, 8)
    y, _ = repeat_step(model, x, no_reset(x), joined)
    assert_close(y[0], repeat_step(model, x, no_reset(x), short)[0][0])
    assert_close(y[1], repeat_step(model, x, no_reset(x), long)[0][1])


def test_every_leaf_of_a_carry_has_a_row_per_batch(model: Any) -> None:
    leaves = dict(named_tensors(model.initial(3)))
    assert leaves
    assert all(len(leaf) == 3 for leaf in leaves.values())


@torch.no_grad()
def test_a_carry_can_be_saved_and_restored(model: Any) -> None:
    carry = history(model, 2, 6)
    saved = dict(named_tensors(clone(carry)))
    restored = restore_tensors(model.initial(2), saved)
    x = inputs(model, 2, 4)
    y, _ = repeat_step(model, x, no_reset(x), restored)
    assert torch.equal(y, repeat_step(model, x, no_reset(x), carry)[0])


@pytest.mark.parametrize("steps", [1, 4, 11])
@torch.no_grad()
def test_announced_steps_affect_the_memory_only(model: Any, steps: int) -> None:
    x = inputs(model, 2, steps)
    reset = torch.rand(2, steps) < 0.2
    y, _ = model.scan(x, reset, model.initial(2))
    head, carry = model.scan(x[:, :1], reset[:, :1], model.initial(2, steps))
    tail = head[:, :0]
    if steps > 1:
        tail, _ = repeat_step(model, x[:, 1:], reset[:, 1:], carry)
    assert_close(torch.cat([head, tail], 1), y)


@torch.no_grad()
def test_an_older_carry_can_be_stepped_again(model: Any) -> None:
    carry, x = history(model, 2, 3), inputs(model, 2, 2)
    first, _ = model.step(x[:, 0], carry)
    model.step(x[:, 1], carry)
    again, _ = model.step(x[:, 0], carry)
    assert torch.equal(again, first)


def test_with_autograd_carries_are_never_modified(model: Any) -> None:
    carry = history(model, 2, 9)
    before = clone(carry)
    x = inputs(model, 2, 3)
    model.step(x[:, 0], carry)
    model.scan(x, no_reset(x), carry)
    for (_, leaf), (_, old) in zip(named_tensors(carry), named_tensors(before), strict=True):
        assert torch.equal(leaf, old)


def test_a_carry_has_the_precision_of_the_parameters(owner: type[Any]) -> None:
    leaves = [leaf for _, leaf in named_tensors(build(owner).initial(1))]
    assert {leaf.dtype for leaf in leaves if leaf.is_floating_point()} == {torch.float64}
