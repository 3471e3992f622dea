"""A causal transformer as a sequence model (STEP-VQ-T): a sliding window, caches as its carry."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.nets.attention import Attention, Cache, Ring, last_steps, rotate_to, visible


@dataclass(frozen=True, slots=True)
class TransformerCarry:
    """The cache of each layer and the ring of steps they share; every leaf has a row per batch.

    Without autograd a step writes its keys and values into the caches it was given. The older
    carry stays valid until one of its slots is written over: going back to it is safe while no
    more than its free slots have been used, and two continuations must not be interleaved.
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
                f"heads={config.heads} must divide half the width {config.width} of the transformer"
            )
        self.width, self.window = config.width, config.window
        self.size = config.width // config.heads
        self.blocks = nn.ModuleList(TransformerBlock(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=1e-5)

    def initial(self, batch: int, steps: int | None = None) -> TransformerCarry:
        """The carry of no history, with a slot for each step to come or for a window of them."""
        slots = self.window if steps is None else max(1, min(self.window, steps))
        caches = tuple(block.attention.initial(batch, slots) for block in self.blocks)
        device = self.norm.weight.device
        places = torch.full((batch, slots), -1, dtype=torch.long, device=device)
        return TransformerCarry(caches, Ring(places, places.new_zeros(batch)))

    def step(
        self, x: Float[Tensor, "B D"], carry: TransformerCarry
    ) -> tuple[Float[Tensor, "B D"], TransformerCarry]:
        """One step; see the carry for what becomes of the one given in."""
        ring = carry.ring.advance()
        rotation = rotate_to(carry.ring.position, self.size, x.dtype)
        age = carry.ring.position[:, None] - ring.places
        mask = ((ring.places >= 0) & (age < self.window))[:, None, None]
        caches = []
        for block, cache in zip(self.blocks, carry.caches, strict=True):
            slot = carry.ring.slot()
            y, cache = block.attention.step(block.attention_norm(x), rotation, cache, slot, mask)
            x = block.finish(x, y)
            caches.append(cache)
        return self.norm(x), TransformerCarry(tuple(caches), ring)

    def scan(
        self, x: Float[Tensor, "B T D"], reset: Bool[Tensor, "B T"], carry: TransformerCarry
    ) -> tuple[Float[Tensor, "B T D"], TransformerCarry]:
        """All steps at once; where `reset` is set the history is forgotten before that step."""
        position = carry.ring.position[:, None] + torch.arange(x.shape[1], device=x.device)
        rotation = rotate_to(position, self.size, x.dtype)
        mask = visible(carry.ring, reset, self.window)
        source, ring = last_steps(carry.ring, reset)
        caches = []
        for block, cache in zip(self.blocks, carry.caches, strict=True):
            y, cache = block.attention.scan(block.attention_norm(x), rotation, cache, source, mask)
            x = block.finish(x, y)
            caches.append(cache)
        return self.norm(x), TransformerCarry(tuple(caches), ring)


class TransformerBlock(nn.Module):
    """Attention and a feed-forward net, each behind a norm."""

    def __init__(self, config: Transformer.Config) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.width, eps=1e-5)
        self.attention = Attention(config.width, config.heads)
        self.feedforward_norm = nn.RMSNorm(config.width, eps=1e-5)
        self.feedforward = nn.Sequential(
            nn.Linear(config.width, config.feedforward),
            nn.SiLU(),
            nn.Linear(config.feedforward, config.width),
        )
        self.dropout = nn.Dropout(config.dropout)

    def finish(
        self, x: Float[Tensor, "*rest D"], attended: Float[Tensor, "*rest D"]
    ) -> Float[Tensor, "*rest D"]:
        """Both residual sums."""
        x = x + self.dropout(attended)
        result: Tensor = x + self.dropout(self.feedforward(self.feedforward_norm(x)))
        return result
