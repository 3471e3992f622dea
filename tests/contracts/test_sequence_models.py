"""The contract of every sequence model for its outputs."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sequence_members import (
    REACH,
    SMALL,
    assert_close,
    build,
    clone,
    found,
    history,
    inputs,
    no_reset,
    repeat_step,
    shrink,
)
from torch import Tensor

from tokenworlds.core.capabilities import BoundedSequence
from tokenworlds.core.trees import map_tensors, named_tensors


@pytest.fixture(params=found(), ids=lambda owner: owner.__name__)
def owner(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=list(REACH))
def model(owner: type[Any], request: pytest.FixtureRequest) -> Any:
    return build(owner, request.param)


def test_members_are_found() -> None:
    names = {owner.__name__ for owner in found()}
    assert {"ConvLSTM", "Mamba2", "Transformer", "PostNormTransformer", "TokenTransformer"} <= names


def test_outputs_have_the_stated_width(model: Any) -> None:
    x = inputs(model, 3, 4)
    y, carry = model.scan(x, no_reset(x), model.initial(3))
    assert y.shape == (3, 4, model.width, *x.shape[3:])
    assert model.step(x[:, 0], carry)[0].shape == y[:, 0].shape


@pytest.mark.parametrize("reach", list(REACH))
@pytest.mark.parametrize("owner", found(), ids=lambda owner: owner.__name__)
@settings(max_examples=8, deadline=None)
@given(
    before=st.integers(0, 9),
    steps=st.integers(1, 19),
    frequency=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    seed=st.integers(0, 2**31),
)
@torch.no_grad()
def test_scan_equals_repeated_step(
    owner: type[Any], reach: str, before: int, steps: int, frequency: float, seed: int
) -> None:
    model = build(owner, reach)
    torch.manual_seed(seed)
    carry = history(model, 3, before)
    x, reset = inputs(model, 3, steps), torch.rand(3, steps) < frequency
    expected, left = repeat_step(model, x, reset, clone(carry))
    y, after = model.scan(x, reset, carry)
    assert_close(y, expected)
    more, none = inputs(model, 3, 7), torch.zeros(3, 7, dtype=torch.bool)
    assert_close(repeat_step(model, more, none, after)[0], repeat_step(model, more, none, left)[0])


def test_scan_equals_repeated_step_in_single_precision(owner: type[Any]) -> None:
    model = build(owner, dtype=torch.float32)
    carry = history(model, 4, 6)
    x, reset = inputs(model, 4, 33), torch.rand(4, 33) < 0.1
    y, _ = model.scan(x, reset, clone(carry))
    assert_close(y, repeat_step(model, x, reset, carry)[0], 1e-5)


def gradients(function: Any, model: Any, x: Tensor, reset: Tensor, carry: Any) -> list[Tensor]:
    """By inputs, parameters and the carry, of a loss on outputs and the new carry."""
    x = x.clone().requires_grad_()
    carry = map_tensors(lambda leaf: leaf.clone().requires_grad_(leaf.is_floating_point()), carry)
    y, after = function(x, reset, carry)
    further, _ = model.step(x[:, 0], after)
    weight = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    loss = (y * weight).sum() + (further * weight[:, 0]).sum()
    leaves = [leaf for _, leaf in named_tensors(carry) if leaf.requires_grad]
    sources = [x, *model.parameters(), *leaves]
    found = torch.autograd.grad(loss, sources, allow_unused=True)
    return [
        torch.zeros_like(leaf) if grad is None else grad
        for leaf, grad in zip(sources, found, strict=True)
    ]


@pytest.mark.parametrize("frequency", [0.0, 0.2])
def test_gradients_of_scan_are_those_of_repeated_step(model: Any, frequency: float) -> None:
    carry = history(model, 3, 4)
    x, reset = inputs(model, 3, 11), torch.rand(3, 11) < frequency
    by_scan = gradients(model.scan, model, x, reset, carry)
    by_step = gradients(lambda *given: repeat_step(model, *given), model, x, reset, carry)
    assert any(grad.abs().max() > 0.01 for grad in by_scan)
    assert_close(by_scan, by_step)


@pytest.mark.parametrize("split", [1, 3, 8, 12])
def test_a_scan_can_be_split_anywhere(model: Any, split: int) -> None:
    x, reset = inputs(model, 3, 13), torch.rand(3, 13) < 0.2
    whole, _ = model.scan(x, reset, model.initial(3))
    head, carry = model.scan(x[:, :split], reset[:, :split], model.initial(3))
    tail, _ = model.scan(x[:, split:], reset[:, split:], carry)
    assert_close(torch.cat([head, tail], 1), whole)


def test_rows_are_independent(model: Any) -> None:
    x, reset = inputs(model, 3, 12), torch.rand(3, 12) < 0.2
    whole, _ = model.scan(x, reset, model.initial(3))
    for row in range(3):
        alone, _ = model.scan(x[row : row + 1], reset[row : row + 1], model.initial(1))
        assert_close(alone[0], whole[row])


@pytest.mark.parametrize("changed", [0, 4, 11])
def test_outputs_depend_on_the_present_and_not_on_the_future(model: Any, changed: int) -> None:
    x = inputs(model, 2, 12)
    y, _ = model.scan(x, no_reset(x), model.initial(2))
    x[:, changed, ::2] += 1.0
    other, _ = model.scan(x, no_reset(x), model.initial(2))
    assert_close(other[:, :changed], y[:, :changed])
    assert (other[:, changed] - y[:, changed]).abs().amax() > 1e-3


def test_outputs_depend_on_the_past(model: Any) -> None:
    x = inputs(model, 2, 12)
    y, _ = model.scan(x, no_reset(x), model.initial(2))
    x[:, 7, ::2] += 1.0
    other, _ = model.scan(x, no_reset(x), model.initial(2))
    assert (other[:, 8:] - y[:, 8:]).abs().amax() > 1e-5


@pytest.mark.parametrize("at", [0, 1, 6, 11])
def test_a_reset_clears_the_history_before_it(model: Any, at: int) -> None:
    x = inputs(model, 2, 12)
    reset = no_reset(x)
    reset[:, at] = True
    y, carry = model.scan(x, reset, history(model, 2, 5))
    alone, fresh = model.scan(x[:, at:], no_reset(x[:, at:]), model.initial(2))
    assert_close(y[:, at:], alone)
    more = inputs(model, 2, 1)[:, 0]
    assert_close(model.step(more, carry)[0], model.step(more, fresh)[0])


@torch.no_grad()
def test_steps_before_a_reset_have_no_effect_at_all(model: Any) -> None:
    x = inputs(model, 1, 12)
    reset = no_reset(x)
    reset[:, 6] = True
    y, _ = model.scan(x, reset, model.initial(1))
    x[:, :6] *= 1e6
    other, _ = model.scan(x, reset, model.initial(1))
    assert torch.equal(other[:, 6:], y[:, 6:])


def bounded() -> list[type[Any]]:
    return [owner for owner in found() if isinstance(build(owner), BoundedSequence)]


@pytest.mark.parametrize("owner", bounded(), ids=lambda owner: owner.__name__)
@torch.no_grad()
def test_a_bounded_model_extends_as_it_steps_while_there_is_room(owner: type[Any]) -> None:
    model = build(owner, "long")
    carry = history(model, 2, 3)
    x = inputs(model, 2, 4)
    assert model.room(carry) == model.max_tokens - 3
    expected, _ = repeat_step(model, x, no_reset(x), clone(carry))
    y, after = model.extend(x, carry)
    assert_close(y, expected)
    assert model.room(after) == model.max_tokens - 7


def test_only_the_token_transformer_is_bounded() -> None:
    assert [owner.__name__ for owner in bounded()] == ["TokenTransformer"]


def scan_once(model: Any, x: Tensor, reset: Tensor, carry: Any) -> tuple[Tensor, Any]:
    result: tuple[Tensor, Any] = model.scan(x, reset, carry)
    return result


def with_dropout() -> list[type[Any]]:
    return [owner for owner in found() if hasattr(owner.Config(), "dropout")]


@pytest.mark.parametrize("run", [scan_once, repeat_step])
@pytest.mark.parametrize("owner", with_dropout(), ids=lambda owner: owner.__name__)
def test_dropout_acts_in_training_only(owner: type[Any], run: Any) -> None:
    model = shrink(owner.Config(), **SMALL, dropout=0.5).build()
    x = inputs(model, 2, 6)
    outputs = [run(model, x, no_reset(x), model.initial(2))[0] for _ in range(2)]
    assert not torch.equal(*outputs)
    model.eval()
    outputs = [run(model, x, no_reset(x), model.initial(2))[0] for _ in range(2)]
    assert torch.equal(*outputs)


def test_a_training_step_reaches_every_parameter(owner: type[Any]) -> None:
    model = build(owner).train()
    x = inputs(model, 2, 9)
    y, _ = model.scan(x, no_reset(x), history(model, 2, 3))
    y.square().mean().backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert idle == []
