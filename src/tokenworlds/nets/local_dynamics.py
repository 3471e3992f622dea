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
from tokenworlds.nets.codebooks import squared_distance

Embedding = Literal["index", "vector"]
STEP, SPREAD = 3.0, 8.0
"""Scales at the start: of changes of vectors, and of squared distances where codes are unlikely."""


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
        then alike from the start. `predicts="vector"` also predicts by how much the vector of each
        cell changes, and makes the codes near the result likely: until the dynamics are learned,
        these are the present ones."""

        channels: int = 32
        layers: int = 2
        groups: int = 4
        pooled: int = 64
        pooled_kernel: int = 1
        embeds: Embedding = "index"
        predicts: Embedding = "index"

        def __post_init__(self) -> None:
            if self.predicts == "vector" and self.embeds == "index":
                raise ValueError("predicts=vector needs embeds=vector, which gives cells vectors")
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

        by_distance = self.by_vector and config.predicts == "vector"
        self.nearness = Nearness(config.channels, rows) if by_distance else None
        self.width = config.channels + (vocabulary if by_distance else 0)
        """Of a cell: what the prior's layer reads, then logits of tokens, if any."""

        # Of its own, because what a step scores hardly weighs in the dynamics of all cells.
        self.alone = config.pooled_kernel == 1
        self.outcome = nn.Sequential(outcome_layer(config), nn.SiLU())

    def forward(
        self,
        sample: Float[Tensor, "*rest K V"],
        previous: Float[Tensor, "*rest K V"],
        action: Float[Tensor, "*rest A"],
        history: Float[Tensor, "*rest D"],
        vectors: Float[Tensor, "V E"] | None = None,
    ) -> Float[Tensor, "*rest K W"]:
        """From one-hot samples, which pass gradients to the tokenizer; zeros are unknown.

        `vectors` are those of all codes, if tokens are embedded by them.
        """
        codes = None if vectors is None else standardise(vectors)
        current, before = self._embeddings(codes)
        tokens = sample @ current + previous @ before
        cells = self._convolve(tokens, self.action(action) + self.history(history))
        if self.nearness is None or codes is None:
            return cells
        return self.nearness.add(cells, sample @ codes, codes)

    def look_up(
        self,
        index: Int[Tensor, "*rest K"],
        previous: Int[Tensor, "*rest K"],
        action: Float[Tensor, "*rest A"],
        history: Float[Tensor, "*rest D"],
        vectors: Float[Tensor, "V E"] | None = None,
    ) -> Float[Tensor, "*rest K W"]:
        """The same from indices."""
        codes = None if vectors is None else standardise(vectors)
        current, before = self._embeddings(codes)
        before = functional.pad(before, (0, 0, 0, 1))
        tokens = functional.embedding(index, current) + functional.embedding(previous, before)
        cells = self._convolve(tokens, self.action(action) + self.history(history))
        if self.nearness is None or codes is None:
            return cells
        return self.nearness.add(cells, functional.embedding(index, codes), codes)

    def _embeddings(self, codes: Float[Tensor, "V E"] | None) -> tuple[Tensor, Tensor]:
        """Of the tokens of the last frame, and of the one before."""
        if codes is None:
            return self.current, self.previous
        return codes @ self.current, codes @ self.previous

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
        found = self._outcomes(cells[..., : self.channels])
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


def outcome_layer(config: LocalDynamics.Config) -> nn.Module:
    """From a cell, or a cell and its neighbours, to what the heads read of it."""
    if config.pooled_kernel == 1:
        return nn.Linear(config.channels, config.pooled)
    return nn.Conv2d(config.channels, config.pooled, config.pooled_kernel, padding="same")


class Nearness(nn.Module):
    """Logits of the tokens of each cell: codes are likely near the vector that is predicted."""

    def __init__(self, channels: int, code_width: int) -> None:
        super().__init__()
        self.change = nn.Linear(channels, code_width)
        nn.init.zeros_(self.change.weight)
        nn.init.zeros_(self.change.bias)
        self.sharpness = nn.Parameter(torch.zeros(()))

    def add(
        self,
        cells: Float[Tensor, "*rest K C"],
        present: Float[Tensor, "*rest K E"],
        codes: Float[Tensor, "V E"],
    ) -> Float[Tensor, "*rest K W"]:
        """The cells, each followed by its logits."""
        distance = squared_distance(present + STEP * self.change(cells), codes)
        return torch.cat([cells, -self.sharpness.exp() / SPREAD * distance], dim=-1)


def standardise(vectors: Float[Tensor, "V E"]) -> Float[Tensor, "V E"]:
    """Their mean is 0, and that of their squares 1: codebooks grow and shrink as they learn."""
    centred = vectors - vectors.mean(dim=0)
    return centred / centred.square().mean().sqrt().clamp_min(1e-6)
