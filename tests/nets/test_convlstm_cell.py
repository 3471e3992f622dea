"""The cell against its equations written out, and how it begins."""

import torch
from torch import Tensor
from torch.nn import functional

from tokenworlds.nets.convlstm import ConvLSTMCell, ConvLSTMState

CHANNELS, GRID = 3, (4, 2)


def make_cell() -> ConvLSTMCell:
    torch.manual_seed(0)
    cell = ConvLSTMCell(5, CHANNELS, 3, GRID).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return cell


def random_state(batch: int) -> ConvLSTMState:
    shape = (batch, CHANNELS, *GRID)
    return ConvLSTMState(*(torch.randn(shape, dtype=torch.float64) for _ in range(2)))


def normed(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Over all channels of all gates and all sites of a row at once."""
    flat = x.flatten(1)
    deviation = (flat.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    return ((flat - flat.mean(1, keepdim=True)) / deviation).view_as(x) * weight + bias


def written_out(cell: ConvLSTMCell, x: Tensor, state: ConvLSTMState) -> ConvLSTMState:
    read = functional.conv2d(x, cell.input.weight, padding=1)
    recalled = functional.conv2d(state.hidden, cell.hidden.weight, padding=1)
    total = normed(read, cell.input_norm.weight, cell.input_norm.bias)
    total = total + normed(recalled, cell.hidden_norm.weight, cell.hidden_norm.bias)
    i, f, g, o = (total[:, at : at + CHANNELS] for at in range(0, 4 * CHANNELS, CHANNELS))
    b_i, b_f, b_g, b_o = (cell.bias[at : at + CHANNELS] for at in range(0, 12, CHANNELS))
    w_i, w_f, w_o = cell.peephole.unbind(0)
    kept = (f + w_f * state.cell + b_f + 1).sigmoid() * state.cell
    after = kept + (i + w_i * state.cell + b_i).sigmoid() * (g + b_g).tanh()
    return ConvLSTMState((o + w_o * after + b_o).sigmoid() * after.tanh(), after)


@torch.no_grad()
def test_a_step_is_as_the_equations_have_it() -> None:
    cell, state = make_cell(), random_state(2)
    x = torch.randn(2, 5, *GRID, dtype=torch.float64)
    found, expected = cell.step(x, state), written_out(cell, x, state)
    torch.testing.assert_close(found.hidden, expected.hidden)
    torch.testing.assert_close(found.cell, expected.cell)


def test_a_new_cell_has_normal_peepholes_and_small_biases() -> None:
    torch.manual_seed(0)
    cell = ConvLSTMCell(38, 128, 5, (2, 2))
    assert abs(cell.peephole.mean()) < 0.2
    assert abs(cell.peephole.std() - 1) < 0.1
    bound = (128 * 25) ** -0.5
    assert 0.95 * bound < cell.bias.abs().max() <= bound
    assert cell.input.bias is None
    assert cell.hidden.bias is None
