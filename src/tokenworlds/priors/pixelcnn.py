"""Tokens of the next frame in raster order, each given those before it (van den Oord et al., 2016:
conditional gated PixelCNN; Smaller World Models, autoregressive ablation)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import Codes, Losses, masked_mean
from tokenworlds.nets.distributions import mix_uniform, sample_index
from tokenworlds.priors.factorised import BalanceConfig, balance_losses, hits


class PixelCNN(nn.Module, Component):
    """Two stacks of gated convolutions over a square grid: the vertical one sees the rows above a
    cell, the horizontal one sees the cells to its left and the vertical stack."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(BalanceConfig, ConfigOf["PixelCNN"]):
        """Three layers with a kernel of 5 let the last cell of a 6x6 grid see all others."""

        layers: int = 3
        channels: int = 64
        kernel: int = 5

    def __init__(self, config: Config, *, width: int, tokens: int, vocabulary: int) -> None:
        super().__init__()
        check_config(config, width, tokens)
        self.config = config
        self.side = math.isqrt(tokens)
        size, last = config.channels, config.layers - 1
        self.table = nn.Embedding(vocabulary, size)
        self.layers = nn.ModuleList(
            GatedLayer(size, width // tokens, config.kernel, first=layer == 0, last=layer == last)
            for layer in range(config.layers)
        )
        self.output = nn.Sequential(
            nn.ReLU(), nn.Conv2d(size, size, 1), nn.ReLU(), nn.Conv2d(size, vocabulary, 1)
        )

    def log_probs(
        self, feature: Float[Tensor, "*rest D"], index: Int[Tensor, "*rest K"]
    ) -> Float[Tensor, "*rest K V"]:
        """The prediction of each token, given the tokens before it."""
        rows, lead = pack([feature], "* d")
        codes = self._embed(rearrange(index, "... k -> (...) k"))
        logits = self._along(codes, self._above(codes, self._place(rows)))
        (cells,) = unpack(rearrange(logits, "n v h w -> n (h w) v"), lead, "* k v")
        return mix_uniform(cells, self.config.unimix)

    def score(
        self, feature: Float[Tensor, "*rest D"], index: Int[Tensor, "*rest K"]
    ) -> Float[Tensor, "*rest K V"]:
        return self.log_probs(feature, index)

    def losses(
        self, feature: Float[Tensor, "B T D"], codes: Codes, mask: Bool[Tensor, "B T"]
    ) -> Losses:
        prior = self.log_probs(feature, codes.index)
        metrics = {"code_accuracy": masked_mean(hits(prior, codes).mean(dim=-1), mask)}
        return balance_losses(self.config, prior, codes, mask, metrics)

    @torch.no_grad()
    def sample(
        self, feature: Float[Tensor, "*rest D"], generator: Generator | None
    ) -> Int[Tensor, "*rest K"]:
        """Sample cell by cell, row by row; the vertical stack runs once per row."""
        rows, lead = pack([feature], "* d")
        history = self._place(rows)
        index = torch.zeros(len(rows), self.side**2, dtype=torch.long, device=feature.device)
        for row in range(self.side):
            codes = self._embed(index)[:, :, : row + 1]
            above = [each[:, :, -1:] for each in self._above(codes, history[:, :, : row + 1])]
            for cell in range(row * self.side, (row + 1) * self.side):
                visible = index[:, row * self.side : cell + 1]
                index[:, cell] = self._sample_cell(visible, above, generator)
        (sampled,) = unpack(index, lead, "* k")
        return sampled

    def _sample_cell(
        self,
        index: Int[Tensor, "N W"],
        above: Sequence[Float[Tensor, "N gates 1 W_all"]],
        generator: Generator | None,
    ) -> Int[Tensor, " N"]:
        """Sample the last cell of `index`, which starts at a row; its own entry is ignored."""
        codes = rearrange(self.table(index), "n w c -> n c 1 w")
        above = [each[..., : index.shape[1]] for each in above]
        logits = self._along(codes, above)[:, :, 0, -1]
        log_probs = mix_uniform(logits, self.config.unimix)
        return sample_index(log_probs, generator, self.config.temperature)

    def _place(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "N C H W"]:
        """The history as a map: each cell gets its slice."""
        return rearrange(rows, "n (h w c) -> n c h w", h=self.side, w=self.side)

    def _embed(self, index: Int[Tensor, "N K"]) -> Float[Tensor, "N C H W"]:
        codes: Tensor = self.table(index)
        return rearrange(codes, "n (h w) c -> n c h w", h=self.side)

    def _above(
        self, codes: Float[Tensor, "N C H W"], history: Float[Tensor, "N E H W"]
    ) -> list[Float[Tensor, "N gates H W"]]:
        """The vertical stack: what each layer passes to the horizontal stack."""
        passed = []
        for layer in self._stack():
            codes, across = layer.vertical_step(codes, history)
            passed.append(across)
        return passed

    def _along(
        self, codes: Float[Tensor, "N C H W"], above: Sequence[Float[Tensor, "N gates H W"]]
    ) -> Float[Tensor, "N V H W"]:
        """The horizontal stack: logits, given the outputs of the vertical stack."""
        skipped = []
        for layer, across in zip(self._stack(), above, strict=True):
            codes, skip = layer.horizontal_step(codes, across)
            skipped += [] if skip is None else [skip]
        return cast(Tensor, self.output(torch.stack(skipped).sum(dim=0)))

    def _stack(self) -> "list[GatedLayer]":
        return cast(list[GatedLayer], list(self.layers))


class GatedLayer(nn.Module):
    """One layer of both stacks. The first one must not see the cell itself; later ones may, because
    their inputs did not see it."""

    def __init__(
        self, channels: int, history: int, kernel: int, *, first: bool, last: bool
    ) -> None:
        super().__init__()
        reach, gates = kernel // 2, 2 * channels
        visible, end = (reach, -1) if first else (reach + 1, 0)
        # A negative padding crops: no cell then sees the last row or column.
        self.over, self.left = (reach, reach, reach, end), (reach, end, 0, 0)
        self.vertical = nn.Conv2d(channels, gates, (visible, kernel))
        self.horizontal = nn.Conv2d(channels, gates, (1, visible))
        self.history = nn.Conv2d(history, 2 * gates, 1, bias=False)
        self.link = nn.Conv2d(gates, gates, 1, bias=False)
        self.skip = None if first else nn.Conv2d(channels, channels, 1)
        self.residual = None if first or last else nn.Conv2d(channels, channels, 1)

    def vertical_step(
        self, x: Float[Tensor, "N C H W"], history: Float[Tensor, "N E H W"]
    ) -> tuple[Float[Tensor, "N C H W"], Float[Tensor, "N gates H W"]]:
        """The next input of the vertical stack, and what it passes to the horizontal one."""
        ours, theirs = self.history(history).chunk(2, dim=1)
        features = self.vertical(functional.pad(x, self.over)) + ours
        return gate(features), self.link(features) + theirs

    def horizontal_step(
        self, x: Float[Tensor, "N C H W"], across: Float[Tensor, "N gates H W"]
    ) -> tuple[Float[Tensor, "N C H W"], Float[Tensor, "N C H W"] | None]:
        """The next input of the horizontal stack, and the skip connection to the output, if any."""
        gated = gate(self.horizontal(functional.pad(x, self.left)) + across)
        further = gated if self.residual is None else x + self.residual(gated)
        return further, None if self.skip is None else self.skip(gated)


def gate(features: Float[Tensor, "N gates H W"]) -> Float[Tensor, "N C H W"]:
    value, opening = features.chunk(2, dim=1)
    return torch.tanh(value) * torch.sigmoid(opening)


def check_config(config: PixelCNN.Config, width: int, tokens: int) -> None:
    if math.isqrt(tokens) ** 2 != tokens:
        raise UserError(f"the PixelCNN needs a square grid of tokens, not {tokens} tokens")
    if width % tokens:
        raise UserError(
            f"the PixelCNN cannot split a history of {width} into {tokens} equal slices, one per "
            "token"
        )
    if config.layers < 2:
        raise UserError(f"layers={config.layers} of the PixelCNN must be 2 or more")
    if config.kernel < 3 or config.kernel % 2 == 0:
        raise UserError(f"kernel={config.kernel} of the PixelCNN must be odd and 3 or more")
