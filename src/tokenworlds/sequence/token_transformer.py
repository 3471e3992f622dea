"""The transformer of IRIS and Δ-IRIS, whose steps are tokens (Micheli et al., 2023 and 2024)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.nets.attention import Attention, Cache
from tokenworlds.nets.dropout import Dropout
from tokenworlds.nets.rings import Ring, land, look_ahead
from tokenworlds.nets.small_normal import small_normal
from tokenworlds.sequence.post_norm_transformer import count_from_resets


@dataclass(frozen=True, slots=True)
class TokenTransformerCarry:
    """The cache of each layer, the ring of tokens they share, and how many each row knows of.

    Every leaf has a row per batch. Without autograd tokens are written into the caches given. The
    older carry stays valid unless a slot it needs was written over: one can go back to it and on
    from there, but not let two futures of it take turns, nor go back once the ring has come round.
    """

    caches: tuple[Cache, ...]
    ring: Ring
    age: Int[Tensor, " B"]


class TokenTransformer(nn.Module, Component):
    """Learned positions, pre-norm blocks and a last norm.

    Positions count from the start of the known history. Worlds begin a new history before they run
    out; where one does not, a token sees as many as there are positions and the later ones all
    take the last.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["TokenTransformer"]):
        """`dropout` is of the input, of what is added in a block and of attention's weights."""

        width: int = 256
        layers: int = 10
        heads: int = 4
        positions: int = 340
        dropout: float = 0.1

    def __init__(self, config: Config) -> None:
        super().__init__()
        if config.width % config.heads:
            raise UserError(
                f"heads={config.heads} of the transformer must divide its width {config.width}"
            )
        self.width = config.width
        self.positions = nn.Embedding(config.positions, config.width)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(TokenBlock(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        small_normal(self)

    def initial(self, batch: int, steps: int | None = None) -> TokenTransformerCarry:
        """The carry of no history, with a slot for each token to come, one per position at most.

        Where more tokens come than were announced, the latest are remembered.
        """
        most = self.positions.num_embeddings
        slots = most if steps is None else max(1, min(most, steps))
        caches = tuple(block.attention.initial(batch, slots) for block in self.stack())
        device = self.norm.weight.device
        places = torch.full((batch, slots), -1, dtype=torch.long, device=device)
        blank = places.new_zeros(batch)
        return TokenTransformerCarry(caches, Ring(places, blank), blank.clone())

    def room(self, carry: TokenTransformerCarry) -> int:
        """How many more tokens can be taken in before any row must forget."""
        return carry.ring.places.shape[1] - int(carry.age.max())

    def step(
        self, x: Float[Tensor, "B D"], carry: TokenTransformerCarry
    ) -> tuple[Float[Tensor, "B D"], TokenTransformerCarry]:
        """One token; see the carry for what becomes of the one given in."""
        y, carry = self.extend(x[:, None], carry)
        return y.squeeze(1), carry

    def extend(
        self, x: Float[Tensor, "B T D"], carry: TokenTransformerCarry
    ) -> tuple[Float[Tensor, "B T D"], TokenTransformerCarry]:
        """Some tokens in one pass that copies no cache; more than one must find room."""
        landing = land(carry.ring, x.shape[1])
        x = self._place(x, landing.position - (carry.ring.position - carry.age)[:, None])
        caches = []
        for block, cache in zip(self.stack(), carry.caches, strict=True):
            y, after = block.attention.extend(block.attention_norm(x), None, cache, landing)
            x = block.finish(x, y)
            caches.append(after)
        age = carry.age + x.shape[1]
        return self.norm(x), TokenTransformerCarry(tuple(caches), landing.ring, age)

    def scan(
        self, x: Float[Tensor, "B T D"], reset: Bool[Tensor, "B T"], carry: TokenTransformerCarry
    ) -> tuple[Float[Tensor, "B T D"], TokenTransformerCarry]:
        """All tokens at once; where `reset` is set the history is forgotten before that token."""
        age = count_from_resets(reset, carry.age)
        sight = look_ahead(carry.ring, reset, self.positions.num_embeddings, x.dtype)
        x = self._place(x, age)
        caches = []
        for block, cache in zip(self.stack(), carry.caches, strict=True):
            y, after = block.attention.scan(block.attention_norm(x), None, cache, sight)
            x = block.finish(x, y)
            caches.append(after)
        return self.norm(x), TokenTransformerCarry(tuple(caches), sight.ring, age[:, -1] + 1)

    def _place(self, x: Float[Tensor, "B T D"], age: Int[Tensor, "B T"]) -> Tensor:
        """Tell the input where in the history it stands."""
        position = age.clamp(max=self.positions.num_embeddings - 1)
        return cast(Tensor, self.dropout(x + self.positions(position)))

    def stack(self) -> Iterable["TokenBlock"]:
        """The blocks in order."""
        return cast(Iterable[TokenBlock], self.blocks)


class TokenBlock(nn.Module):
    """Attention and a feed-forward net, each behind a norm and added to what it read."""

    def __init__(self, config: TokenTransformer.Config) -> None:
        super().__init__()
        width = config.width
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, config.heads, config.dropout, biased=True)
        self.feedforward_norm = nn.LayerNorm(width)
        self.feedforward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.dropout = Dropout(config.dropout)

    def finish(
        self, x: Float[Tensor, "*batch D"], attended: Float[Tensor, "*batch D"]
    ) -> Float[Tensor, "*batch D"]:
        """Both sums, given what attention saw."""
        x = x + self.dropout(attended)
        result: Tensor = x + self.dropout(self.feedforward(self.feedforward_norm(x)))
        return result
