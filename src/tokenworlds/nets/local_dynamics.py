"""Local dynamics: convolutions over the tokens of two frames, with the same weights everywhere."""

from dataclasses import dataclass
from typing import Literal, cast

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
        """`pooled` is the number of channels that the heads read of all cells together, from
        `pooled_kernel` x `pooled_kernel` cells each. `embeds` is what a token is embedded by: its
        index, or the vector of its code, if all tokens share a codebook. Codes that look alike are
        then alike from the start."""

        channels: int = 32
        layers: int = 2
        groups: int = 4
        pooled: int = 64
        pooled_kernel: int = 1
        embeds: Literal["index", "vector"] = "index"

        def __post_init__(self) -> None:
            if self.pooled_kernel < 1 or self.pooled_kernel % 2 == 0:
                raise ValueError(f"pooled_kernel takes 1, 3, 5 and so on, not {self.pooled_kernel}")

    def __init__(
        self,
        config: Config,
        *,
        grid: tuple[int, int],
        vocabulary: int,
        code_width: int | None,
        actions: int,
        width: int,
    ) -> None:
        super().__init__()
        self.channels, self.height, self.unknown = config.channels, grid[0], vocabulary
        """`unknown` stands for each token of the frame before an episode's first one."""
        vector_width = code_width if config.embeds == "vector" else None
        self.by_vector = vector_width is not None
        rows = vector_width or vocabulary
        scale = vector_width**-0.5 if vector_width else 1.0
        self.current = nn.Parameter(torch.randn(rows, config.channels) * scale)
        self.previous = nn.Parameter(torch.randn(rows, config.channels) * scale)
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
        self.alone = config.pooled_kernel == 1
        self.outcome = nn.Sequential(
            nn.Linear(config.channels, config.pooled)
            if self.alone
            else nn.Conv2d(config.channels, config.pooled, config.pooled_kernel, padding="same"),
            nn.SiLU(),
        )

    def forward(
        self,
        sample: Float[Tensor, "*rest K V"],
        previous: Float[Tensor, "*rest K V"],
        action: Float[Tensor, "*rest A"],
        history: Float[Tensor, "*rest D"],
        vectors: Float[Tensor, "V E"] | None = None,
    ) -> Float[Tensor, "*rest K C"]:
        """From one-hot samples, which pass gradients to the tokenizer; zeros are unknown.

        `vectors` are those of all codes, if tokens are embedded by them.
        """
        current, before = self._embeddings(vectors)
        tokens = sample @ current + previous @ before
        return self._convolve(tokens, self.action(action) + self.history(history))

    def look_up(
        self,
        index: Int[Tensor, "*rest K"],
        previous: Int[Tensor, "*rest K"],
        action: Float[Tensor, "*rest A"],
        history: Float[Tensor, "*rest D"],
        vectors: Float[Tensor, "V E"] | None = None,
    ) -> Float[Tensor, "*rest K C"]:
        """The same from indices."""
        current, before = self._embeddings(vectors)
        before = functional.pad(before, (0, 0, 0, 1))
        tokens = functional.embedding(index, current) + functional.embedding(previous, before)
        return self._convolve(tokens, self.action(action) + self.history(history))

    def _embeddings(self, vectors: Float[Tensor, "V E"] | None) -> tuple[Tensor, Tensor]:
        """Of the tokens of the last frame, and of the one before."""
        if vectors is None:
            return self.current, self.previous
        centred = vectors - vectors.mean(dim=0)
        standard = centred / centred.square().mean().sqrt().clamp_min(1e-6)
        return standard @ self.current, standard @ self.previous

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
        found = self._outcomes(cells)
        return torch.cat(
            [reduce(found, "... k c -> ... c", how) for how in ("max", "mean")], dim=-1
        )

    def _outcomes(self, cells: Float[Tensor, "*rest K C"]) -> Float[Tensor, "*rest K P"]:
        """What the heads read of each cell, alone or with its neighbours."""
        if self.alone:
            return cast(Tensor, self.outcome(cells))
        flat, lead = pack([cells], "* k c")
        maps = self.outcome(rearrange(flat, "b (h w) c -> b c h w", h=self.height))
        found: list[Tensor] = unpack(rearrange(maps, "b c h w -> b (h w) c"), lead, "* k c")
        return found[0]
