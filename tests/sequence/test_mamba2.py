"""The Mamba-2 layer against its definition, written out step by step."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tokenworlds.core.errors import UserError
from tokenworlds.nets.fast.state_space import (
    CausalConvolution,
    MaskedConvolution,
    StateSpace,
    mask_resets,
    plain_masked_convolution,
    plain_scan,
    remaining,
    scan_chunks,
)
from tokenworlds.sequence.mamba2 import Mamba2, Mamba2Layer

BATCH, HEADS, SIZE, STATE = 3, 2, 5, 4


def make_space(steps: int, dtype: torch.dtype, strength: float = 1.0) -> StateSpace:
    return StateSpace(
        delta=torch.rand(BATCH, steps, HEADS, dtype=dtype) * strength,
        rate=-1 - 15 * torch.rand(HEADS, dtype=dtype),
        write=torch.randn(BATCH, steps, STATE, dtype=dtype) / STATE,
        read=torch.randn(BATCH, steps, STATE, dtype=dtype),
        skip=torch.randn(HEADS, dtype=dtype),
    )


def by_chunks(
    x: Tensor, space: StateSpace, memory: Tensor, reset: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    return scan_chunks(x, space, memory, mask_resets(reset, 3, chunk, x.dtype))


def example(steps: int, dtype: torch.dtype) -> tuple[Tensor, StateSpace, Tensor]:
    torch.manual_seed(steps)
    x = torch.randn(BATCH, steps, HEADS, SIZE, dtype=dtype)
    memory = torch.randn(BATCH, HEADS, STATE, SIZE, dtype=dtype)
    return x, make_space(steps, dtype, strength=0.2), memory


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("chunk", [1, 4, 16, 64])
@pytest.mark.parametrize("steps", [1, 7, 16, 50])
@pytest.mark.parametrize("frequency", [0.0, 0.15])
def test_chunks_equal_the_recurrence(
    dtype: torch.dtype, tolerance: float, chunk: int, steps: int, frequency: float
) -> None:
    x, space, memory = example(steps, dtype)
    reset = torch.rand(BATCH, steps) < frequency
    found = by_chunks(x, space, memory, reset, chunk)
    expected = plain_scan(x, space, memory, reset)
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-5)])
@pytest.mark.parametrize("steps", [7, 18])
@pytest.mark.parametrize("frequency", [0.0, 0.15])
def test_gradients_of_chunks_are_those_of_the_recurrence(
    dtype: torch.dtype, tolerance: float, steps: int, frequency: float
) -> None:
    x, space, memory = example(steps, dtype)
    reset = torch.rand(BATCH, steps) < frequency
    names = ("delta", "rate", "write", "read", "skip")
    leaves = [x, memory, *(getattr(space, name) for name in names)]
    for leaf in leaves:
        leaf.requires_grad_()
    weight = torch.randn(x.shape, dtype=dtype), torch.randn(memory.shape, dtype=dtype)
    results = []
    for y, last in (by_chunks(x, space, memory, reset, 4), plain_scan(x, space, memory, reset)):
        loss = (y * weight[0]).sum() + (last * weight[1]).sum()
        results.append(torch.autograd.grad(loss, leaves))
    torch.testing.assert_close(*results, rtol=tolerance, atol=tolerance)


def test_the_decay_between_steps_is_exact_where_decay_is_strong() -> None:
    """A difference of running sums would be wrong by a thousandth here."""
    log_decay = torch.full((64,), -1e-3)
    log_decay[10] = -3e4
    exact = math.exp(-1e-3 * 40)
    assert abs(remaining(log_decay)[60, 20].item() - exact) < 1e-6


@pytest.mark.parametrize("strength", [1e-8, 1e3])
def test_extreme_step_sizes_stay_finite(strength: float) -> None:
    x, space, memory = example(20, torch.float32)
    space = replace(space, delta=(space.delta * strength).requires_grad_())
    reset = torch.rand(BATCH, 20) < 0.2
    y, last = by_chunks(x, space, memory, reset, 8)
    (y.sum() + last.sum()).backward()
    assert space.delta.grad is not None
    assert all(part.isfinite().all() for part in (y, last, space.delta.grad))


@pytest.mark.parametrize(("heads", "parameters"), [(16, 1_604_304), (4, 1_598_124)])
def test_parameters_of_a_block_of_width_512(heads: int, parameters: int) -> None:
    model = Mamba2.Config(heads=heads, layers=1).build()
    block = next(iter(model.stack()))
    assert sum(parameter.numel() for parameter in block.parameters()) == parameters


def test_parameters_outside_the_blocks_are_one_norm() -> None:
    model = Mamba2.Config(layers=0).build()
    assert sum(parameter.numel() for parameter in model.parameters()) == 512


def test_initial_values_are_those_of_the_paper() -> None:
    torch.manual_seed(0)
    layer = Mamba2Layer(Mamba2.Config(heads=1024))
    delta = functional.softplus(layer.delta_bias)
    assert delta.min() >= 1e-3
    assert delta.max() <= 0.1 + 1e-6
    assert abs(delta.log().mean().item() - math.log(1e-2)) < 0.15
    assert layer.log_rate.exp().min() >= 1
    assert layer.log_rate.exp().max() <= 16
    assert abs(layer.log_rate.exp().mean().item() - 8.5) < 0.5
    assert layer.skip.eq(1).all()
    bound = 1 / math.sqrt(1024) / math.sqrt(4)
    assert bound * 0.99 < layer.output.weight.abs().max() <= bound


def test_heads_must_divide_the_inner_width() -> None:
    with pytest.raises(UserError, match=r"heads=3 .* 1024"):
        Mamba2.Config(heads=3).build()


def test_convolution_is_that_of_torch() -> None:
    convolution = CausalConvolution(6, 4).double()
    x = torch.randn(2, 9, 6, dtype=torch.float64)
    kept = torch.ones(2, 9, 3, dtype=torch.float64)
    y, _ = convolution.scan(x, convolution.initial(2), kept)
    weight = convolution.weight.T[:, None]
    expected = functional.conv1d(functional.pad(x.mT, (3, 0)), weight, convolution.bias, groups=6)
    torch.testing.assert_close(y, expected.mT)


def test_the_convolution_with_masked_taps_and_its_gradient() -> None:
    extended = torch.randn(2, 8, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(3, dtype=torch.float64, requires_grad=True)
    kept = (torch.rand(2, 5, 3) < 0.5).double()
    inputs = (extended, weight, bias, kept)
    found: Tensor = MaskedConvolution.apply(*inputs)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(found, plain_masked_convolution(*inputs))
    assert torch.autograd.gradcheck(MaskedConvolution.apply, inputs)


@pytest.mark.parametrize("convolution", [1, 2, 6])
def test_any_length_of_convolution_steps_as_it_scans(convolution: int) -> None:
    config = Mamba2.Config(width=8, layers=2, heads=2, state=3, convolution=convolution)
    model = config.build().double().eval()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    y, _ = model.scan(x, torch.zeros(2, 5, dtype=torch.bool), model.initial(2))
    carry = model.initial(2)
    for t in range(5):
        step, carry = model.step(x[:, t], carry)
        torch.testing.assert_close(step, y[:, t], rtol=0, atol=1e-12)


def test_the_chunk_length_does_not_affect_results() -> None:
    model = Mamba2.Config(width=8, layers=2, heads=2).build().double().eval()
    x, reset = torch.randn(2, 37, 8, dtype=torch.float64), torch.rand(2, 37) < 0.1
    y, _ = model.scan(x, reset, model.initial(2))
    model.chunk = 5
    torch.testing.assert_close(model.scan(x, reset, model.initial(2))[0], y, rtol=0, atol=1e-12)


@torch.no_grad()
def test_the_state_stays_in_single_precision_under_autocast() -> None:
    torch.manual_seed(0)
    model = Mamba2.Config(width=16, layers=2, heads=2).build().eval()
    x, reset = torch.randn(2, 20, 16), torch.zeros(2, 20, dtype=torch.bool)
    exact, _ = model.scan(x, reset, model.initial(2))
    with torch.autocast("cpu", dtype=torch.float16):
        y, carry = model.scan(x, reset, model.initial(2))
        _, carry = model.step(x[:, 0], carry)
    assert {state.memory.dtype for state in carry} == {torch.float32}
    assert (y.float() - exact).abs().max() < 0.02
    assert model.half().initial(1)[0].memory.dtype == torch.float32
