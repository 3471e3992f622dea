"""The ConvLSTM cell against its equations written out, and its initial values."""

from typing import Literal

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tokenworlds.nets.fast import map_convolution
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.sequence.convlstm import ConvLSTMCell, ConvLSTMState

CHANNELS = 3
SHAPES = [((4, 2), 3), ((6, 6), 5)]


@pytest.fixture(params=[0.0, 1e6], ids=["frequencies", "plain"], autouse=True)
def convolution(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both implementations of the convolutions."""
    monkeypatch.setattr(map_convolution, "MIN_SAVING", request.param)


def make_cell(grid: tuple[int, int] = (4, 2), kernel: int = 3) -> ConvLSTMCell:
    torch.manual_seed(0)
    cell = ConvLSTMCell(5, CHANNELS, kernel, grid).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return cell


def random_state(batch: int, grid: tuple[int, int] = (4, 2)) -> ConvLSTMState:
    shape = (batch, CHANNELS, *grid)
    hidden, cell = torch.randn(2, *shape, dtype=torch.float64)
    return ConvLSTMState(hidden, cell)


def normed(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Over all channels of all gates and all cells of a row at once."""
    flat = x.flatten(1)
    deviation = (flat.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    return ((flat - flat.mean(1, keepdim=True)) / deviation).view_as(x) * weight + bias


def written_out(cell: ConvLSTMCell, x: Tensor, state: ConvLSTMState) -> ConvLSTMState:
    read = functional.conv2d(x, cell.input.weight, padding="same")
    recalled = functional.conv2d(state.hidden, cell.hidden.weight, padding="same")
    total = normed(read, cell.input_norm.weight, cell.input_norm.bias)
    total = total + normed(recalled, cell.hidden_norm.weight, cell.hidden_norm.bias)
    i, f, g, o = (total[:, at : at + CHANNELS] for at in range(0, 4 * CHANNELS, CHANNELS))
    b_i, b_f, b_g, b_o = (cell.bias[at : at + CHANNELS] for at in range(0, 12, CHANNELS))
    w_i, w_f, w_o = cell.peephole.unbind(0)
    kept = (f + w_f * state.cell + b_f + 1).sigmoid() * state.cell
    after = kept + (i + w_i * state.cell + b_i).sigmoid() * (g + b_g).tanh()
    return ConvLSTMState((o + w_o * after + b_o).sigmoid() * after.tanh(), after)


@pytest.mark.parametrize(("grid", "kernel"), SHAPES)
def test_steps_follow_the_equations(grid: tuple[int, int], kernel: int) -> None:
    cell, state = make_cell(grid, kernel), random_state(2, grid)
    inputs = torch.randn(3, 2, 5, *grid, dtype=torch.float64)
    found = expected = state
    for x in inputs:
        found, expected = cell.step(x, found), written_out(cell, x, expected)
    torch.testing.assert_close(found.hidden, expected.hidden)
    torch.testing.assert_close(found.cell, expected.cell)
    ours, theirs = (
        torch.autograd.grad((each.hidden * inputs[0, :, :3]).sum(), list(cell.parameters()))
        for each in (found, expected)
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kind", ["adam", "laprop"])
def test_a_carry_may_be_older_than_the_weights(kind: Literal["adam", "laprop"]) -> None:
    cell, x = make_cell(*SHAPES[1]), torch.randn(2, 5, 6, 6, dtype=torch.float64)
    state = cell.step(x, cell.initial(2))
    before = cell.step(x, state).hidden
    choices = Optimiser.Config(kind=kind, rate=0.1, warm_up=0)
    choices.build(module=cell).step(before.square().sum())
    found = cell.step(x, state).hidden
    torch.testing.assert_close(found, written_out(cell, x, state).hidden)
    assert not torch.allclose(found, before, rtol=0.01)


def test_the_carry_of_another_cell_may_be_used() -> None:
    one, other = make_cell(*SHAPES[1]), make_cell(*SHAPES[1])
    x = torch.randn(2, 5, 6, 6, dtype=torch.float64)
    with torch.no_grad():
        other.bias.add_(1.0)
        one.bias.add_(2.0)
    state = one.step(x, one.initial(2))
    torch.testing.assert_close(other.step(x, state).hidden, written_out(other, x, state).hidden)


def test_a_new_cell_has_normal_peepholes_and_small_biases() -> None:
    torch.manual_seed(0)
    cell = ConvLSTMCell(38, 128, 5, (2, 2))
    assert abs(cell.peephole.mean()) < 0.2
    assert abs(cell.peephole.std() - 1) < 0.1
    bound = (128 * 25) ** -0.5
    assert 0.95 * bound < cell.bias.abs().max() <= bound
    assert cell.input.bias is None
    assert cell.hidden.bias is None
