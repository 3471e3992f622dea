"""A stack of convolutional LSTMs over maps of codes and actions (Smaller World Models)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.trees import where_rows
from tokenworlds.nets.fast.map_convolution import MapConvolution, concat_channels

FORGET_BIAS = 1.0
"""Added to the forget gate, so that a new cell remembers."""

Rows = Float[Tensor, "B S C"]
"""A map with its cells as one axis."""


class ConvLSTM(nn.Module, Component):
    """Reads maps whose last channels are the planes of the action, which every cell reads.

    The first cell reads the code map with them, each further one the hidden map of the cell below.
    The last cell's hidden map is the output, with `width` channels. Without a `grid` it reads
    vectors, each a map of one cell: an LSTM.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["ConvLSTM"]):
        """`channels` of each cell's state."""

        channels: int = 128
        layers: int = 2
        kernel: int = 5

    def __init__(
        self,
        config: Config,
        *,
        inputs: int | None = None,
        actions: int = 0,
        grid: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        check_sizes(config)
        self.width, self.reads_maps = config.channels, grid is not None
        inputs = config.channels if inputs is None else inputs
        self.planes = (inputs, actions)
        # On a map of one cell, the other weights of a kernel would see only padding.
        size, kernel = (grid, config.kernel) if grid is not None else ((1, 1), 1)
        below = [inputs] + [config.channels] * (config.layers - 1)
        self.cells = nn.ModuleList(
            ConvLSTMCell(read + actions, config.channels, kernel, size) for read in below
        )

    def initial(self, batch: int, steps: int | None = None) -> "ConvLSTMCarry":
        return tuple(cell.initial(batch) for cell in self.stack())

    def step(
        self, x: Float[Tensor, "B *D"], carry: "ConvLSTMCarry"
    ) -> tuple[Float[Tensor, "B *E"], "ConvLSTMCarry"]:
        y, action = self._to_maps(x).split(self.planes, dim=-3)
        states = []
        for cell, state in zip(self.stack(), carry, strict=True):
            states.append(cell.step(concat_channels(y, action), state))
            y = states[-1].hidden
        return self._from_maps(y), tuple(states)

    def scan(
        self, x: Float[Tensor, "B T *D"], reset: Bool[Tensor, "B T"], carry: "ConvLSTMCarry"
    ) -> tuple[Float[Tensor, "B T *E"], "ConvLSTMCarry"]:
        y, action = self._to_maps(x).split(self.planes, dim=-3)
        states = []
        for cell, state in zip(self.stack(), carry, strict=True):
            y, after = cell.scan(concat_channels(y, action), reset, state)
            states.append(after)
        return self._from_maps(y), tuple(states)

    def _to_maps(self, x: Float[Tensor, "*rest"]) -> Float[Tensor, "*maps"]:
        return x if self.reads_maps else rearrange(x, "... d -> ... d 1 1")

    def _from_maps(self, y: Float[Tensor, "*maps"]) -> Float[Tensor, "*rest"]:
        return y if self.reads_maps else rearrange(y, "... d 1 1 -> ... d")

    def stack(self) -> Iterable["ConvLSTMCell"]:
        return cast(Iterable[ConvLSTMCell], self.cells)


def check_sizes(config: ConvLSTM.Config) -> None:
    if config.layers < 1:
        raise UserError(f"layers={config.layers} of the ConvLSTM must be 1 or more")
    if config.kernel < 1 or config.kernel % 2 == 0:
        raise UserError(
            f"kernel={config.kernel} of the ConvLSTM must be odd, so that maps keep their size"
        )


class PreparedWeights:
    """A cell's weights in the layout of its steps; the carry passes them from step to step."""

    def __init__(self, cell: "ConvLSTMCell") -> None:
        self.made_of = stamp(cell)
        self.input, self.hidden = (each.prepare(cell.grid) for each in (cell.input, cell.hidden))
        self.input_scale = by_cell(cell.input_norm.weight)
        self.hidden_scale = by_cell(cell.hidden_norm.weight)
        bias = cell.input_norm.bias + cell.hidden_norm.bias + cell.bias
        forget = torch.zeros_like(cell.bias)
        forget.chunk(4)[1].fill_(FORGET_BIAS)
        self.bias = by_cell(bias + forget)
        self.peephole = rearrange(cell.peephole, "gates c 1 1 -> gates c")


@dataclass(frozen=True, slots=True)
class ConvLSTMState:
    hidden: Float[Tensor, "B C H W"]
    cell: Float[Tensor, "B C H W"]
    prepared: PreparedWeights | None = None


ConvLSTMCarry = tuple[ConvLSTMState, ...]


class ConvLSTMCell(nn.Module):
    """Gates are sums of two convolutions, each with a layer norm over its whole output, and of the
    cell state times one weight per channel ("peephole")."""

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
        blank = self.bias.new_zeros(batch, *self.grid, self.channels).movedim(-1, 1)
        return ConvLSTMState(blank, blank.clone(), PreparedWeights(self))

    def step(self, x: Float[Tensor, "B D H W"], state: ConvLSTMState) -> ConvLSTMState:
        weights = self._weights(state)
        return self._advance(self._read(x, weights), state, weights)

    def scan(
        self, x: Float[Tensor, "B T D H W"], reset: Bool[Tensor, "B T"], state: ConvLSTMState
    ) -> tuple[Float[Tensor, "B T C H W"], ConvLSTMState]:
        """The inputs of all steps are convolved at once."""
        weights, hidden = self._weights(state), []
        read = self._read(rearrange(x, "b t d h w -> (t b) d h w"), weights)
        by_step = rearrange(read, "(t b) s g -> t b s g", t=reset.shape[1])
        blank = ConvLSTMState(torch.zeros_like(state.hidden), torch.zeros_like(state.cell), weights)
        for now, clears in zip(by_step, reset.unbind(1), strict=True):
            state = self._advance(now, where_rows(clears, blank, state), weights)
            hidden.append(state.hidden.movedim(1, -1))
        return torch.stack(hidden, 1).movedim(-1, 2), state

    def _weights(self, state: ConvLSTMState) -> PreparedWeights:
        if state.prepared is None or state.prepared.made_of != stamp(self):
            return PreparedWeights(self)
        return state.prepared

    def _read(
        self, x: Float[Tensor, "N D H W"], weights: PreparedWeights
    ) -> Float[Tensor, "N S gates"]:
        return norm(weights.input(x), weights.input_scale, weights.bias, self.input_norm.eps)

    def _advance(
        self, read: Float[Tensor, "B S gates"], state: ConvLSTMState, weights: PreparedWeights
    ) -> ConvLSTMState:
        convolved = weights.hidden(state.hidden)
        recalled = norm(convolved, weights.hidden_scale, None, self.hidden_norm.eps)
        before = rearrange(state.cell, "b c h w -> b (h w) c")
        after, hidden = apply_gates(read + recalled, before, weights.peephole)
        return ConvLSTMState(self._to_map(hidden), self._to_map(after), weights)

    def _to_map(self, rows: Rows) -> Float[Tensor, "B C H W"]:
        return rearrange(rows, "b (h w) c -> b c h w", h=self.grid[0])


def apply_gates(
    total: Float[Tensor, "B S gates"], cell: Rows, peephole: Float[Tensor, "3 C"]
) -> tuple[Rows, Rows]:
    """The new cell state and hidden state."""
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
    """Layer norm over a whole map."""
    rows = rearrange(maps, "n g h w -> n (h w g)")
    normed = functional.layer_norm(rows, scale.shape, scale, bias, epsilon)
    return normed.view(len(maps), -1, maps.shape[1])


def by_cell(weight: Float[Tensor, "gates H W"]) -> Float[Tensor, " Sgates"]:
    return rearrange(weight, "g h w -> (h w g)")


def stamp(cell: ConvLSTMCell) -> tuple[object, ...]:
    """Differs if the weights have changed, or if gradients no longer or only now reach them."""
    learns = torch.is_grad_enabled() and cell.bias.requires_grad
    return (cell, learns, *(parameter._version for parameter in cell.parameters()))
