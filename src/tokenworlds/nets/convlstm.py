"""A recurrent cell whose state is a map, with norms inside its gates (Smaller World Models)."""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.trees import where_rows
from tokenworlds.nets.map_convolution import MapConvolution

FORGET = 1.0
"""Added to the forget gate, so that a new cell remembers."""

Rows = Float[Tensor, "B S C"]
"""A map, site after site."""


class Prepared:
    """The weights of a cell laid out for many steps; a carry hands them on as one thing."""

    def __init__(self, cell: "ConvLSTMCell") -> None:
        self.made_of, self.learns = (cell, versions(cell)), learns(cell)
        self.input, self.hidden = (each.prepare(cell.grid) for each in (cell.input, cell.hidden))
        self.input_scale = by_site(cell.input_norm.weight)
        self.hidden_scale = by_site(cell.hidden_norm.weight)
        bias = cell.input_norm.bias + cell.hidden_norm.bias + cell.bias
        forget = torch.zeros_like(cell.bias)
        forget.chunk(4)[1].fill_(FORGET)
        self.bias = by_site(bias + forget)
        self.peephole = rearrange(cell.peephole, "gates c 1 1 -> gates c")

    def serve(self, cell: "ConvLSTMCell") -> bool:
        """Whether the cell's weights are still these, and gradients reach them if they must."""
        known = self.made_of == (cell, versions(cell))
        return known and (self.learns or not learns(cell))


@dataclass(frozen=True, slots=True)
class ConvLSTMState:
    """What a cell hands up, what it keeps to itself, and its weights if they were laid out."""

    hidden: Float[Tensor, "B C H W"]
    cell: Float[Tensor, "B C H W"]
    prepared: Prepared | None = None


class ConvLSTMCell(nn.Module):
    """Gates are sums of two convolutions, each behind a norm over the whole of its output, and of
    the cell through one weight a channel ("peephole")."""

    def __init__(self, inputs: int, channels: int, kernel: int, grid: tuple[int, int]) -> None:
        super().__init__()
        gates, bound = 4 * channels, (channels * kernel**2) ** -0.5
        self.input = MapConvolution(inputs, gates, kernel)
        self.input_norm = nn.LayerNorm((gates, *grid))
        self.hidden = MapConvolution(channels, gates, kernel)
        self.hidden_norm = nn.LayerNorm((gates, *grid))
        self.peephole = nn.Parameter(torch.randn(3, channels, 1, 1))
        self.bias = nn.Parameter(torch.empty(gates, 1, 1).uniform_(-bound, bound))
        self.channels, self.grid = channels, grid

    def initial(self, batch: int) -> ConvLSTMState:
        """Nothing was seen."""
        blank = self.bias.new_zeros(batch, *self.grid, self.channels).movedim(-1, 1)
        return ConvLSTMState(blank, blank.clone(), Prepared(self))

    def step(self, x: Float[Tensor, "B D H W"], state: ConvLSTMState) -> ConvLSTMState:
        """One step."""
        ready = self._ready(state)
        return self._advance(self._read(x, ready), state, ready)

    def scan(
        self, x: Float[Tensor, "B T D H W"], reset: Bool[Tensor, "B T"], state: ConvLSTMState
    ) -> tuple[Float[Tensor, "B T C H W"], ConvLSTMState]:
        """All steps, what is read of the input at once; the state is blank where `reset` is set."""
        ready, hidden = self._ready(state), []
        read = self._read(rearrange(x, "b t d h w -> (t b) d h w"), ready)
        by_step = rearrange(read, "(t b) s g -> t b s g", t=reset.shape[1])
        blank = ConvLSTMState(torch.zeros_like(state.hidden), torch.zeros_like(state.cell), ready)
        for now, anew in zip(by_step, reset.unbind(1), strict=True):
            state = self._advance(now, where_rows(anew, blank, state), ready)
            hidden.append(state.hidden.movedim(1, -1))
        return torch.stack(hidden, 1).movedim(-1, 2), state

    def _ready(self, state: ConvLSTMState) -> Prepared:
        found = state.prepared
        return found if found is not None and found.serve(self) else Prepared(self)

    def _read(self, x: Float[Tensor, "N D H W"], ready: Prepared) -> Float[Tensor, "N S gates"]:
        return norm(ready.input(x), ready.input_scale, ready.bias, self.input_norm.eps)

    def _advance(
        self, read: Float[Tensor, "B S gates"], state: ConvLSTMState, ready: Prepared
    ) -> ConvLSTMState:
        recalled = norm(ready.hidden(state.hidden), ready.hidden_scale, None, self.hidden_norm.eps)
        before = rearrange(state.cell, "b c h w -> b (h w) c")
        after, hidden = turn(read + recalled, before, ready.peephole)
        return ConvLSTMState(self._lay(hidden), self._lay(after), ready)

    def _lay(self, rows: Rows) -> Float[Tensor, "B C H W"]:
        return rearrange(rows, "b (h w) c -> b c h w", h=self.grid[0])


def turn(
    total: Float[Tensor, "B S gates"], cell: Rows, peephole: Float[Tensor, "3 C"]
) -> tuple[Rows, Rows]:
    """What is kept, and what of it is handed up, as the gates have it."""
    first, new, leave = total.split([2 * cell.shape[-1], *cell.shape[-1:] * 2], dim=-1)
    pair = rearrange(first, "b s (gate c) -> b s gate c", gate=2)
    enter, forget = torch.sigmoid(torch.addcmul(pair, cell.unsqueeze(2), peephole[:2])).unbind(2)
    after = torch.addcmul(forget * cell, enter, torch.tanh(new))
    return after, torch.sigmoid(torch.addcmul(leave, after, peephole[2])) * torch.tanh(after)


def norm(
    maps: Float[Tensor, "N gates H W"],
    scale: Float[Tensor, " Sgates"],
    bias: Float[Tensor, " Sgates"] | None,
    epsilon: float,
) -> Float[Tensor, "N S gates"]:
    """Over the whole of a map."""
    rows = rearrange(maps, "n g h w -> n (h w g)")
    normed = functional.layer_norm(rows, scale.shape, scale, bias, epsilon)
    return normed.view(len(maps), -1, maps.shape[1])


def by_site(weight: Float[Tensor, "gates H W"]) -> Float[Tensor, " Sgates"]:
    """The weights of sites one after the other."""
    return rearrange(weight, "g h w -> (h w g)")


def versions(cell: ConvLSTMCell) -> tuple[int, ...]:
    """Numbers that change with the weights."""
    return tuple(parameter._version for parameter in cell.parameters())


def learns(cell: ConvLSTMCell) -> bool:
    """Whether gradients are to reach the weights."""
    return torch.is_grad_enabled() and cell.bias.requires_grad
