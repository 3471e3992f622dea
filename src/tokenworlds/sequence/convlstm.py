"""A stack of convolutional LSTMs over maps of codes and actions (Smaller World Models)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.nets.convlstm import ConvLSTMCell, ConvLSTMState
from tokenworlds.nets.map_convolution import beside

ConvLSTMCarry = tuple[ConvLSTMState, ...]


class ConvLSTM(nn.Module, Component):
    """Reads maps whose last channels are the planes of the action; every cell is given them.

    The first cell reads the code map with them, each further one what the cell below hands up. The
    last cell's hidden map is the output, with `width` channels.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["ConvLSTM"]):
        """`channels` are those of each cell's state."""

        channels: int = 128
        layers: int = 2
        kernel: int = 5

    def __init__(self, config: Config, *, inputs: int, actions: int, grid: tuple[int, int]) -> None:
        super().__init__()
        insist_on_sizes(config)
        self.width = config.channels
        self.planes = (inputs, actions)
        below = [inputs] + [config.channels] * (config.layers - 1)
        self.cells = nn.ModuleList(
            ConvLSTMCell(read + actions, config.channels, config.kernel, grid) for read in below
        )

    def initial(self, batch: int, steps: int | None = None) -> ConvLSTMCarry:
        """The carry of no history; its size does not depend on the steps to come."""
        return tuple(cell.initial(batch) for cell in self.stack())

    def step(
        self, x: Float[Tensor, "B D H W"], carry: ConvLSTMCarry
    ) -> tuple[Float[Tensor, "B C H W"], ConvLSTMCarry]:
        """One step."""
        y, action = x.split(self.planes, dim=1)
        states = []
        for cell, state in zip(self.stack(), carry, strict=True):
            states.append(cell.step(beside(y, action), state))
            y = states[-1].hidden
        return y, tuple(states)

    def scan(
        self, x: Float[Tensor, "B T D H W"], reset: Bool[Tensor, "B T"], carry: ConvLSTMCarry
    ) -> tuple[Float[Tensor, "B T C H W"], ConvLSTMCarry]:
        """Cell after cell, each all steps; where `reset` is set the history is forgotten before."""
        y, action = x.split(self.planes, dim=2)
        states = []
        for cell, state in zip(self.stack(), carry, strict=True):
            y, after = cell.scan(beside(y, action), reset, state)
            states.append(after)
        return y, tuple(states)

    def stack(self) -> Iterable[ConvLSTMCell]:
        """The cells in order."""
        return cast(Iterable[ConvLSTMCell], self.cells)


def insist_on_sizes(config: ConvLSTM.Config) -> None:
    """Raise for sizes that cannot be."""
    if config.layers < 1:
        raise UserError(f"layers={config.layers} of the ConvLSTM takes 1 or more")
    if config.kernel < 1 or config.kernel % 2 == 0:
        raise UserError(
            f"kernel={config.kernel} of the ConvLSTM must be odd, for a map to keep its size"
        )
