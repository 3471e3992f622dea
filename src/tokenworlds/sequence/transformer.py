"""A causal transformer as a sequence model (STEP-VQ-T): a sliding window, caches as its carry."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.nets.attention import Attention, Cache
from tokenworlds.nets.dropout import Dropout
from tokenworlds.nets.norms import RMSNorm
from tokenworlds.nets.rings import Ring, land, look_ahead
from tokenworlds.nets.rotary import rotate_to


@dataclass(frozen=True, slots=True)
class TransformerCarry:
    """The cache of each layer and the ring of steps they share; every leaf has a row per batch.

    Without autograd a step writes into the caches it was given. The older carry stays valid unless
    a slot it needs was written over: one can go back to it and on from there, but not let two
    futures of it take turns, nor go back once the ring has come round.
    """

    caches: tuple[Cache, ...]
    ring: Ring


class Transformer(nn.Module, Component):
    """Pre-norm blocks of attention and a feed-forward net, and a last norm."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Transformer"]):
        """A step sees itself and the `window - 1` steps before it."""

        width: int = 512
        layers: int = 4
        heads: int = 8
        feedforward: int = 2048
        window: int = 128
        dropout: float = 0.1

    def __init__(self, config: Config) -> None:
        super().__init__()
        if config.width % (2 * config.heads):
            raise UserError(
                f"heads={config.heads} of the transformer must divide half its width "
                f"{config.width}, for its positions turn features in pairs"
            )
        self.width, self.window = config.width, config.window
        self.size = config.width // config.heads
        self.blocks = nn.ModuleList(TransformerBlock(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width, eps=1e-5)

    def initial(self, batch: int, steps: int | None = None) -> TransformerCarry:
        """The carry of no history, with a slot for each step to come, a window's length at most.

        Where more steps come than were announced, the latest are remembered.
        """
        slots = self.window if steps is None else max(1, min(self.window, steps))
        caches = tuple(block.attention.initial(batch, slots) for block in self.stack())
        device = self.norm.weight.device
        places = torch.full((batch, slots), -1, dtype=torch.long, device=device)
        return TransformerCarry(caches, Ring(places, places.new_zeros(batch)))

    def step(
        self, x: Float[Tensor, "B D"], carry: TransformerCarry
    ) -> tuple[Float[Tensor, "B D"], TransformerCarry]:
        """One step; see the carry for what becomes of the one given in."""
        landing, y = land(carry.ring, 1), x[:, None]
        rotation = rotate_to(landing.position, self.size, x.dtype)
        caches = []
        for block, cache in zip(self.stack(), carry.caches, strict=True):
            seen, after = block.attention.extend(block.attention_norm(y), rotation, cache, landing)
            y = block.finish(y, seen)
            caches.append(after)
        return self.norm(y).squeeze(1), TransformerCarry(tuple(caches), landing.ring)

    def scan(
        self, x: Float[Tensor, "B T D"], reset: Bool[Tensor, "B T"], carry: TransformerCarry
    ) -> tuple[Float[Tensor, "B T D"], TransformerCarry]:
        """All steps at once; where `reset` is set the history is forgotten before that step."""
        position = carry.ring.position[:, None] + torch.arange(x.shape[1], device=x.device)
        rotation = rotate_to(position, self.size, x.dtype)
        sight = look_ahead(carry.ring, reset, self.window, x.dtype)
        caches = []
        for block, cache in zip(self.stack(), carry.caches, strict=True):
            y, after = block.attention.scan(block.attention_norm(x), rotation, cache, sight)
            x = block.finish(x, y)
            caches.append(after)
        return self.norm(x), TransformerCarry(tuple(caches), sight.ring)

    def stack(self) -> Iterable["TransformerBlock"]:
        """The blocks in order."""
        return cast(Iterable[TransformerBlock], self.blocks)


class TransformerBlock(nn.Module):
    """Attention and a feed-forward net, each behind a norm and added to what it read."""

    def __init__(self, config: Transformer.Config) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.width, eps=1e-5)
        self.attention = Attention(config.width, config.heads)
        self.feedforward_norm = RMSNorm(config.width, eps=1e-5)
        output = nn.Linear(config.feedforward, config.width)
        self.feedforward = nn.Sequential(
            nn.Linear(config.width, config.feedforward), nn.SiLU(), output
        )
        self.dropout = Dropout(config.dropout)
        # Two sums per block: the variance of the residual stream does not grow with depth.
        with torch.no_grad():
            for last in (self.attention.output, output):
                last.weight.div_(math.sqrt(2 * config.layers))

    def finish(
        self, x: Float[Tensor, "*batch D"], attended: Float[Tensor, "*batch D"]
    ) -> Float[Tensor, "*batch D"]:
        """Both sums, given what attention saw."""
        x = x + self.dropout(attended)
        result: Tensor = x + self.dropout(self.feedforward(self.feedforward_norm(x)))
        return result
