"""What every sequence model promises; members are found, not listed."""

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tokenworlds import sequence
from tokenworlds.core.families import import_member, is_component, module_names
from tokenworlds.core.trees import map_tensors, named_tensors, restore_tensors, where_rows

SMALL = {"width": 16, "layers": 2, "heads": 2, "feedforward": 24, "state": 3}
REACH = {"short": {"window": 5, "chunk": 4}, "long": {"window": 50, "chunk": 64}}


def found() -> list[type[Any]]:
    """Every component of the package that can be stepped."""
    modules = [import_member(sequence, name) for name in module_names(sequence)]
    values = [(value, module) for module in modules for value in vars(module).values()]
    return [value for value, module in values if is_component(value, module)]


def shrink(config: Any, **changes: Any) -> Any:
    """A copy with those of the fields changed that it has."""
    names = {field.name for field in dataclasses.fields(config)}
    return dataclasses.replace(config, **{k: v for k, v in changes.items() if k in names})


def build(owner: type[Any], reach: str = "short", dtype: torch.dtype = torch.float64) -> Any:
    torch.manual_seed(0)
    return shrink(owner.Config(), **SMALL, **REACH[reach]).build().to(dtype).eval()


def inputs(model: Any, batch: int, steps: int) -> Tensor:
    return torch.randn(batch, steps, model.width, dtype=model.norm.weight.dtype)


def no_reset(x: Tensor) -> Tensor:
    return torch.zeros(x.shape[:2], dtype=torch.bool)


def repeat_step(model: Any, x: Tensor, reset: Tensor, carry: Any) -> tuple[Tensor, Any]:
    """The meaning of `scan`."""
    outputs, blank = [], like(model, carry)
    for t in range(x.shape[1]):
        carry = where_rows(reset[:, t], blank, carry)
        y, carry = model.step(x[:, t], carry)
        outputs.append(y)
    return torch.stack(outputs, 1), carry


def like(model: Any, carry: Any) -> Any:
    """No history, in a carry of the same size."""
    shapes = [leaf.shape for _, leaf in named_tensors(carry)]
    for steps in (None, *range(1, 60)):
        blank = model.initial(shapes[0][0], steps)
        if [leaf.shape for _, leaf in named_tensors(blank)] == shapes:
            return blank
    raise AssertionError(shapes)


def history(model: Any, batch: int, steps: int) -> Any:
    """A carry that has seen something."""
    x = inputs(model, batch, steps)
    with torch.no_grad():
        return (
            model.scan(x, no_reset(x), model.initial(batch))[1] if steps else model.initial(batch)
        )


def clone(carry: Any) -> Any:
    return map_tensors(lambda leaf: leaf.clone(), carry)


def assert_close(a: Any, b: Any, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=tolerance)


@pytest.fixture(params=found(), ids=lambda owner: owner.__name__)
def owner(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=list(REACH))
def model(owner: type[Any], request: pytest.FixtureRequest) -> Any:
    return build(owner, request.param)


def test_members_are_found() -> None:
    assert {"Mamba2", "Transformer"} <= {owner.__name__ for owner in found()}


@pytest.mark.parametrize("reach", list(REACH))
@pytest.mark.parametrize("owner", found(), ids=lambda owner: owner.__name__)
@settings(max_examples=10, deadline=None)
@given(
    before=st.integers(0, 9),
    steps=st.integers(1, 19),
    frequency=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    seed=st.integers(0, 2**31),
)
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
    """Of the inputs, the parameters and the carry, for outputs and the carry handed on."""
    x = x.clone().requires_grad_()
    carry = map_tensors(lambda leaf: leaf.clone().requires_grad_(leaf.is_floating_point()), carry)
    y, after = function(x, reset, carry)
    further, _ = model.step(x[:, 0], after)
    weight = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    loss = (y * weight).sum() + (further * weight[:, 0]).sum()
    leaves = [leaf for _, leaf in named_tensors(carry) if leaf.requires_grad]
    wanted = [x, *model.parameters(), *leaves]
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    return [
        torch.zeros_like(leaf) if grad is None else grad
        for leaf, grad in zip(wanted, found, strict=True)
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
    x[:, changed] += 1.0
    other, _ = model.scan(x, no_reset(x), model.initial(2))
    assert_close(other[:, :changed], y[:, :changed])
    assert (other[:, changed] - y[:, changed]).abs().amax() > 1e-3


def test_outputs_depend_on_the_past(model: Any) -> None:
    x = inputs(model, 2, 12)
    y, _ = model.scan(x, no_reset(x), model.initial(2))
    x[:, 7] += 1.0
    other, _ = model.scan(x, no_reset(x), model.initial(2))
    assert (other[:, 8:] - y[:, 8:]).abs().amax() > 1e-5


@pytest.mark.parametrize("at", [0, 1, 6, 11])
def test_a_reset_forgets_everything_before_it(model: Any, at: int) -> None:
    x = inputs(model, 2, 12)
    reset = no_reset(x)
    reset[:, at] = True
    y, carry = model.scan(x, reset, history(model, 2, 5))
    anew, fresh = model.scan(x[:, at:], no_reset(x[:, at:]), model.initial(2))
    assert_close(y[:, at:], anew)
    more = inputs(model, 2, 1)[:, 0]
    assert_close(model.step(more, carry)[0], model.step(more, fresh)[0])


@torch.no_grad()
def test_what_was_forgotten_leaves_no_trace(model: Any) -> None:
    x = inputs(model, 1, 12)
    reset = no_reset(x)
    reset[:, 6] = True
    y, _ = model.scan(x, reset, model.initial(1))
    x[:, :6] *= 1e6
    other, _ = model.scan(x, reset, model.initial(1))
    assert torch.equal(other[:, 6:], y[:, 6:])


@torch.no_grad()
def test_rows_of_different_age_can_be_joined(model: Any) -> None:
    """A world replaces the carry of rows that begin anew: no counter may be shared."""
    young, old = history(model, 2, 2), history(model, 2, 9)
    joined = where_rows(torch.tensor([True, False]), young, old)
    x = inputs(model, 2, 8)
    y, _ = repeat_step(model, x, no_reset(x), joined)
    assert_close(y[0], repeat_step(model, x, no_reset(x), young)[0][0])
    assert_close(y[1], repeat_step(model, x, no_reset(x), old)[0][1])


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
def test_announced_steps_change_nothing_but_memory(model: Any, steps: int) -> None:
    x = inputs(model, 2, steps)
    reset = torch.rand(2, steps) < 0.2
    y, _ = model.scan(x, reset, model.initial(2))
    head, carry = model.scan(x[:, :1], reset[:, :1], model.initial(2, steps))
    tail = torch.empty(2, 0, model.width, dtype=x.dtype)
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


def test_with_autograd_no_carry_is_changed(model: Any) -> None:
    carry = history(model, 2, 9)
    before = clone(carry)
    x = inputs(model, 2, 3)
    model.step(x[:, 0], carry)
    model.scan(x, no_reset(x), carry)
    for (_, leaf), (_, old) in zip(named_tensors(carry), named_tensors(before), strict=True):
        assert torch.equal(leaf, old)


def scan_once(model: Any, x: Tensor, reset: Tensor, carry: Any) -> tuple[Tensor, Any]:
    result: tuple[Tensor, Any] = model.scan(x, reset, carry)
    return result


@pytest.mark.parametrize("run", [scan_once, repeat_step])
def test_dropout_acts_in_training_only(owner: type[Any], run: Any) -> None:
    model = shrink(owner.Config(), **SMALL, dropout=0.5).build()
    x = inputs(model, 2, 6)
    outputs = [run(model, x, no_reset(x), model.initial(2))[0] for _ in range(2)]
    assert not torch.equal(*outputs)
    model.eval()
    outputs = [run(model, x, no_reset(x), model.initial(2))[0] for _ in range(2)]
    assert torch.equal(*outputs)


def test_a_carry_has_the_precision_of_the_parameters(owner: type[Any]) -> None:
    leaves = [leaf for _, leaf in named_tensors(build(owner).initial(1))]
    assert {leaf.dtype for leaf in leaves if leaf.is_floating_point()} == {torch.float64}


def test_a_training_step_reaches_every_parameter(owner: type[Any]) -> None:
    model = build(owner).train()
    x = inputs(model, 2, 9)
    y, _ = model.scan(x, no_reset(x), history(model, 2, 3))
    y.square().mean().backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert idle == []
