"""Codes of the next frame drawn in raster order, each in sight of those before it (van den Oord et
al., 2016: conditional gated PixelCNN; Smaller World Models, autoregressive ablation)."""

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
from tokenworlds.priors.balance import Balance, Objective, Span, hits, posterior_entropy


class PixelCNN(nn.Module, Component):
    """Two stacks of gated convolutions over the square of sites: one knows the rows above, the
    other, which is told of it, what is to the left."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["PixelCNN"]):
        """Choices. With three layers and a kernel of 5 the last site sees every other of a 6x6
        frame. Objective, free bits and unimix are those of the factorised prior."""

        layers: int = 3
        channels: int = 64
        kernel: int = 5
        objective: Objective = "kl"
        free_bits: float = 1.0
        free_bits_over: Span = "frame"
        unimix: float = 0.01

    def __init__(self, config: Config, *, width: int, tokens: int, vocabulary: int) -> None:
        super().__init__()
        insist_on_sizes(config, width, tokens)
        self.config = config
        self.side = math.isqrt(tokens)
        self.balance = Balance(config.objective, config.free_bits, config.free_bits_over)
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
        """The prediction at each site, given the codes of those before it and of no other."""
        rows, lead = pack([feature], "* d")
        codes = self._embed(rearrange(index, "... k -> (...) k"))
        logits = self._along(codes, self._above(codes, self._place(rows)))
        (sites,) = unpack(rearrange(logits, "n v h w -> n (h w) v"), lead, "* k v")
        return mix_uniform(sites, self.config.unimix)

    def losses(
        self, feature: Float[Tensor, "B T D"], codes: Codes, mask: Bool[Tensor, "B T"]
    ) -> Losses:
        """`dynamics` moves the prediction to the codes, `representation` the codes to it."""
        prior = self.log_probs(feature, codes.index)
        terms = self.balance.terms(prior, codes, mask)
        metrics = {
            "code_accuracy": masked_mean(hits(prior, codes).mean(dim=-1), mask),
            "posterior_entropy": posterior_entropy(codes, mask),
        }
        return Losses(terms, dict.fromkeys(terms, mask), metrics)

    @torch.no_grad()
    def sample(
        self, feature: Float[Tensor, "*rest D"], generator: Generator | None
    ) -> Int[Tensor, "*rest K"]:
        """Draw site after site, row after row; what is above a row is computed once for it."""
        rows, lead = pack([feature], "* d")
        history = self._place(rows)
        index = torch.zeros(len(rows), self.side**2, dtype=torch.long, device=feature.device)
        for row in range(self.side):
            codes = self._embed(index)[:, :, : row + 1]
            above = [each[:, :, -1:] for each in self._above(codes, history[:, :, : row + 1])]
            for site in range(row * self.side, (row + 1) * self.side):
                seen = index[:, row * self.side : site + 1]
                index[:, site] = self._draw(seen, above, generator)
        (drawn,) = unpack(index, lead, "* k")
        return drawn

    def _draw(
        self,
        index: Int[Tensor, "N W"],
        above: Sequence[Float[Tensor, "N gates 1 W_all"]],
        generator: Generator | None,
    ) -> Int[Tensor, " N"]:
        """The last of these sites, which begin a row; what `index` has there is not seen."""
        codes = rearrange(self.table(index), "n w c -> n c 1 w")
        told = [each[..., : index.shape[1]] for each in above]
        logits = self._along(codes, told)[:, :, 0, -1]
        return sample_index(mix_uniform(logits, self.config.unimix), generator)

    def _place(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "N C H W"]:
        """Each site's share of the history."""
        return rearrange(rows, "n (h w c) -> n c h w", h=self.side, w=self.side)

    def _embed(self, index: Int[Tensor, "N K"]) -> Float[Tensor, "N C H W"]:
        codes: Tensor = self.table(index)
        return rearrange(codes, "n (h w) c -> n c h w", h=self.side)

    def _above(
        self, codes: Float[Tensor, "N C H W"], history: Float[Tensor, "N E H W"]
    ) -> list[Float[Tensor, "N gates H W"]]:
        """What each layer tells of the rows above a site and of the history."""
        told = []
        for layer in self._stack():
            codes, now = layer.look_up(codes, history)
            told.append(now)
        return told

    def _along(
        self, codes: Float[Tensor, "N C H W"], above: Sequence[Float[Tensor, "N gates H W"]]
    ) -> Float[Tensor, "N V H W"]:
        """The logits, given what is known from above."""
        skipped = []
        for layer, told in zip(self._stack(), above, strict=True):
            codes, skip = layer.look_left(codes, told)
            skipped += [] if skip is None else [skip]
        return cast(Tensor, self.output(torch.stack(skipped).sum(dim=0)))

    def _stack(self) -> "list[GatedLayer]":
        return cast(list[GatedLayer], list(self.layers))


class GatedLayer(nn.Module):
    """One layer of both stacks. The first one must not see the site itself; the later ones may, for
    what they read of it has not."""

    def __init__(
        self, channels: int, history: int, kernel: int, *, first: bool, last: bool
    ) -> None:
        super().__init__()
        reach, gates = kernel // 2, 2 * channels
        seen, hidden = (reach, -1) if first else (reach + 1, 0)
        # A negative padding cuts off: the last row or column is then seen by no site.
        self.over, self.left = (reach, reach, reach, hidden), (reach, hidden, 0, 0)
        self.vertical = nn.Conv2d(channels, gates, (seen, kernel))
        self.horizontal = nn.Conv2d(channels, gates, (1, seen))
        self.history = nn.Conv2d(history, 2 * gates, 1, bias=False)
        self.link = nn.Conv2d(gates, gates, 1, bias=False)
        self.skip = None if first else nn.Conv2d(channels, channels, 1)
        self.residual = None if first or last else nn.Conv2d(channels, channels, 1)

    def look_up(
        self, x: Float[Tensor, "N C H W"], history: Float[Tensor, "N E H W"]
    ) -> tuple[Float[Tensor, "N C H W"], Float[Tensor, "N gates H W"]]:
        """The vertical stack, and what the horizontal one is told of it and of the history."""
        ours, theirs = self.history(history).chunk(2, dim=1)
        features = self.vertical(functional.pad(x, self.over)) + ours
        return gate(features), self.link(features) + theirs

    def look_left(
        self, x: Float[Tensor, "N C H W"], told: Float[Tensor, "N gates H W"]
    ) -> tuple[Float[Tensor, "N C H W"], Float[Tensor, "N C H W"] | None]:
        """The horizontal stack, and what goes past the layers above, if any, to the output."""
        gated = gate(self.horizontal(functional.pad(x, self.left)) + told)
        further = gated if self.residual is None else x + self.residual(gated)
        return further, None if self.skip is None else self.skip(gated)


def gate(features: Float[Tensor, "N gates H W"]) -> Float[Tensor, "N C H W"]:
    """One half, as far as the other lets it through."""
    value, opening = features.chunk(2, dim=1)
    return torch.tanh(value) * torch.sigmoid(opening)


def insist_on_sizes(config: PixelCNN.Config, width: int, tokens: int) -> None:
    """Raise for sizes that cannot be, or not for a frame of so many tokens."""
    if math.isqrt(tokens) ** 2 != tokens:
        raise UserError(f"the PixelCNN reads a square of tokens, and {tokens} are none")
    if width % tokens:
        raise UserError(
            f"the PixelCNN gives each of {tokens} tokens an even share of the history, and {width} "
            "does not come out even"
        )
    if config.layers < 2:
        raise UserError(f"layers={config.layers} of the PixelCNN takes 2 or more")
    if config.kernel < 3 or config.kernel % 2 == 0:
        raise UserError(f"kernel={config.kernel} of the PixelCNN must be odd, and 3 or more")
