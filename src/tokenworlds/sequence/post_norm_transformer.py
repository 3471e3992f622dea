"""STORM's causal transformer: learned positions, and norms behind what they norm."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.nets.attention import Attention, Cache
from tokenworlds.nets.dropout import Dropout
from tokenworlds.nets.rings import Ring, land, look_ahead


@dataclass(frozen=True, slots=True)
class PostNormTransformerCarry:
    """The cache of each layer, the ring of steps they share, and how many steps each row knows of.

    Every leaf has a row per batch. Without autograd a step writes into the caches it was given. The
    older carry stays valid unless a slot it needs was written over: one can go back to it and on
    from there, but not let two futures of it take turns, nor go back once the ring has come round.
    """

    caches: tuple[Cache, ...]
    ring: Ring
    age: Int[Tensor, " B"]


class PostNormTransformer(nn.Module, Component):
    """Positions added to the input and a norm, then blocks that end in a norm.

    Positions count from the start of the known history. Where a history is longer than the table
    of positions (STORM refuses it), a step sees as many steps as there are positions, itself the
    last of them, and all the later ones take the last position.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["PostNormTransformer"]):
        """`dropout` is of what is added in a block, and of the attention's weights."""

        width: int = 512
        layers: int = 2
        heads: int = 8
        feedforward: int = 1024
        positions: int = 64
        dropout: float = 0.1

    def __init__(self, config: Config) -> None:
        super().__init__()
        if config.width % config.heads:
            raise UserError(
                f"heads={config.heads} of the transformer must divide its width {config.width}"
            )
        self.width = config.width
        self.positions = nn.Parameter(torch.randn(config.positions, config.width))
        self.norm = nn.LayerNorm(config.width, eps=1e-6)
        self.blocks = nn.ModuleList(PostNormBlock(config) for _ in range(config.layers))

    def initial(self, batch: int, steps: int | None = None) -> PostNormTransformerCarry:
        """The carry of no history, with a slot for each step to come, one per position at most.

        Where more steps come than were announced, the latest are remembered.
        """
        most = len(self.positions)
        slots = most if steps is None else max(1, min(most, steps))
        caches = tuple(block.attention.initial(batch, slots) for block in self.stack())
        places = torch.full((batch, slots), -1, dtype=torch.long, device=self.positions.device)
        blank = places.new_zeros(batch)
        return PostNormTransformerCarry(caches, Ring(places, blank), blank.clone())

    def step(
        self, x: Float[Tensor, "B D"], carry: PostNormTransformerCarry
    ) -> tuple[Float[Tensor, "B D"], PostNormTransformerCarry]:
        """One step; see the carry for what becomes of the one given in."""
        landing = land(carry.ring, 1)
        y = self._place(x, carry.age)[:, None]
        caches = []
        for block, cache in zip(self.stack(), carry.caches, strict=True):
            seen, after = block.attention.extend(y, None, cache, landing)
            y = block.finish(y, seen)
            caches.append(after)
        carry = PostNormTransformerCarry(tuple(caches), landing.ring, carry.age + 1)
        return y.squeeze(1), carry

    def scan(
        self, x: Float[Tensor, "B T D"], reset: Bool[Tensor, "B T"], carry: PostNormTransformerCarry
    ) -> tuple[Float[Tensor, "B T D"], PostNormTransformerCarry]:
        """All steps at once; where `reset` is set the history is forgotten before that step."""
        age = count_from_resets(reset, carry.age)
        sight = look_ahead(carry.ring, reset, len(self.positions), x.dtype)
        x = self._place(x, age)
        caches = []
        for block, cache in zip(self.stack(), carry.caches, strict=True):
            y, after = block.attention.scan(x, None, cache, sight)
            x = block.finish(x, y)
            caches.append(after)
        return x, PostNormTransformerCarry(tuple(caches), sight.ring, age[:, -1] + 1)

    def _place(self, x: Float[Tensor, "*rest D"], age: Int[Tensor, "*rest"]) -> Tensor:
        """Tell the input where in the history it stands."""
        position = functional.embedding(age.clamp(max=len(self.positions) - 1), self.positions)
        return cast(Tensor, self.norm(x + position))

    def stack(self) -> Iterable["PostNormBlock"]:
        """The blocks in order."""
        return cast(Iterable[PostNormBlock], self.blocks)


class PostNormBlock(nn.Module):
    """Attention and a feed-forward net, each added to what it read and normed with it."""

    def __init__(self, config: PostNormTransformer.Config) -> None:
        super().__init__()
        self.attention = Attention(config.width, config.heads, config.dropout)
        self.attention_norm = nn.LayerNorm(config.width, eps=1e-6)
        self.feedforward = nn.Sequential(
            nn.Linear(config.width, config.feedforward),
            nn.ReLU(),
            nn.Linear(config.feedforward, config.width),
        )
        self.feedforward_norm = nn.LayerNorm(config.width, eps=1e-6)
        self.dropout = Dropout(config.dropout)

    def finish(
        self, x: Float[Tensor, "*batch D"], attended: Float[Tensor, "*batch D"]
    ) -> Float[Tensor, "*batch D"]:
        """Both sums, given what attention saw."""
        x = self.attention_norm(x + self.dropout(attended))
        result: Tensor = self.feedforward_norm(x + self.dropout(self.feedforward(x)))
        return result


def count_from_resets(reset: Bool[Tensor, "B T"], age: Int[Tensor, " B"]) -> Int[Tensor, "B T"]:
    """How many steps before each are known: those since the last reset, or all and `age` more."""
    step = torch.arange(reset.shape[1], device=reset.device)
    since = torch.where(reset, step, -1).cummax(1).values
    return torch.where(since >= 0, step - since, age[:, None] + step)
