"""A recurrent cell whose state is a map, with norms inside its gates (Smaller World Models)."""

from dataclasses import dataclass
from typing import cast

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenworlds.core.trees import where_rows

FORGET = 1.0
"""Added to the forget gate, so that a new cell remembers."""


@dataclass(frozen=True, slots=True)
class ConvLSTMState:
    """What a cell hands up, and what it keeps to itself."""

    hidden: Float[Tensor, "B C H W"]
    cell: Float[Tensor, "B C H W"]


class ConvLSTMCell(nn.Module):
    """Gates are sums of two convolutions, each behind a norm over the whole of its output, and of
    the cell through one weight a channel ("peephole")."""

    def __init__(self, inputs: int, channels: int, kernel: int, grid: tuple[int, int]) -> None:
        super().__init__()
        gates, bound = 4 * channels, (channels * kernel**2) ** -0.5
        self.input = nn.Conv2d(inputs, gates, kernel, padding="same", bias=False)
        self.input_norm = nn.LayerNorm((gates, *grid))
        self.hidden = nn.Conv2d(channels, gates, kernel, padding="same", bias=False)
        self.hidden_norm = nn.LayerNorm((gates, *grid))
        self.peephole = nn.Parameter(torch.randn(3, channels, 1, 1))
        self.bias = nn.Parameter(torch.empty(gates, 1, 1).uniform_(-bound, bound))
        self.shape = (channels, *grid)

    def initial(self, batch: int) -> ConvLSTMState:
        """Nothing was seen."""
        blank = self.bias.new_zeros(batch, *self.shape)
        return ConvLSTMState(blank, blank.clone())

    def step(self, x: Float[Tensor, "B D H W"], state: ConvLSTMState) -> ConvLSTMState:
        """One step."""
        return self._advance(self._read(x), state)

    def scan(
        self, x: Float[Tensor, "B T D H W"], reset: Bool[Tensor, "B T"], state: ConvLSTMState
    ) -> tuple[Float[Tensor, "B T C H W"], ConvLSTMState]:
        """All steps, what is read of the input at once; the state is blank where `reset` is set."""
        read = self._read(rearrange(x, "b t d h w -> (b t) d h w"))
        by_step = rearrange(read, "(b t) g h w -> t b g h w", t=reset.shape[1])
        blank, hidden = self.initial(len(x)), []
        for now, anew in zip(by_step, reset.unbind(1), strict=True):
            state = self._advance(now, where_rows(anew, blank, state))
            hidden.append(state.hidden)
        return torch.stack(hidden, 1), state

    def _read(self, x: Float[Tensor, "N D H W"]) -> Float[Tensor, "N gates H W"]:
        return cast(Tensor, self.input_norm(self.input(x)))

    def _advance(self, read: Float[Tensor, "B gates H W"], state: ConvLSTMState) -> ConvLSTMState:
        recalled = self.hidden_norm(self.hidden(state.hidden))
        enter, forget, new, leave = (read + recalled + self.bias).chunk(4, dim=1)
        to_enter, to_forget, to_leave = self.peephole
        entered = torch.sigmoid(enter + to_enter * state.cell) * torch.tanh(new)
        kept = torch.sigmoid(forget + to_forget * state.cell + FORGET) * state.cell
        cell = kept + entered
        return ConvLSTMState(torch.sigmoid(leave + to_leave * cell) * torch.tanh(cell), cell)
