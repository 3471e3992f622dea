"""Local dynamics: convolutions over the tokens of two frames, with the same weights everywhere."""

from dataclasses import dataclass

import torch
from einops import pack, rearrange, reduce, unpack
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.blocks import finish_map


class LocalDynamics(nn.Module, Component):
    """The tokens of the last two frames, action and history, to a vector for each next cell.

    A linear layer over all cells has weights of its own for each of them: it learns in every place
    anew how things move and what they score. Convolutions learn it once.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["LocalDynamics"]):
        """`pooled` is the number of channels that the heads read of all cells together."""

        channels: int = 32
        layers: int = 2
        groups: int = 4
        pooled: int = 64

    def __init__(
        self, config: Config, *, grid: tuple[int, int], vocabulary: int, actions: int, width: int
    ) -> None:
        super().__init__()
        self.channels, self.height, self.unknown = config.channels, grid[0], vocabulary
        """`unknown` stands for each token of the frame before an episode's first one."""
        self.current = nn.Parameter(torch.randn(vocabulary, config.channels))
        self.previous = nn.Parameter(torch.randn(vocabulary, config.channels))
        self.action = nn.Linear(actions, config.channels)
        self.history = nn.Linear(width, config.channels, bias=False)
        self.place = nn.Parameter(torch.zeros(config.channels, *grid))
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(config.channels, config.channels, 3, padding=1),
                finish_map(config.channels, config.groups),
            )
            for _ in range(config.layers)
        )

        # Of its own, because what a step scores hardly weighs in the dynamics of all cells.
        self.outcome = nn.Sequential(nn.Linear(config.channels, config.pooled), nn.SiLU())

    def forward(
        self,
        sample: Float[Tensor, "*rest K V"],
        previous: Float[Tensor, "*rest K V"],
        action: Float[Tensor, "*rest A"],
        history: Float[Tensor, "*rest D"],
    ) -> Float[Tensor, "*rest K C"]:
        """From one-hot samples, which pass gradients to the tokenizer; zeros are unknown."""
        tokens = sample @ self.current + previous @ self.previous
        return self._convolve(tokens, self.action(action) + self.history(history))

    def look_up(
        self,
        index: Int[Tensor, "*rest K"],
        previous: Int[Tensor, "*rest K"],
        action: Float[Tensor, "*rest A"],
        history: Float[Tensor, "*rest D"],
    ) -> Float[Tensor, "*rest K C"]:
        """The same from indices."""
        known = functional.pad(self.previous, (0, 0, 0, 1))
        tokens = functional.embedding(index, self.current) + functional.embedding(previous, known)
        return self._convolve(tokens, self.action(action) + self.history(history))

    def _convolve(
        self, tokens: Float[Tensor, "*rest K C"], everywhere: Float[Tensor, "*rest C"]
    ) -> Float[Tensor, "*rest K C"]:
        flat, lead = pack([tokens + everywhere.unsqueeze(-2)], "* k c")
        maps = rearrange(flat, "b (h w) c -> b c h w", h=self.height) + self.place
        for layer in self.layers:
            maps = maps + layer(maps)
        cells: list[Tensor] = unpack(rearrange(maps, "b c h w -> b (h w) c"), lead, "* k c")
        return cells[0]

    def summarise(self, cells: Float[Tensor, "*rest K C"]) -> Float[Tensor, "*rest E"]:
        """Maximum and mean of each channel: whether something happens anywhere, and how much."""
        found = self.outcome(cells)
        return torch.cat(
            [reduce(found, "... k c -> ... c", how) for how in ("max", "mean")], dim=-1
        )
