"""The transformer of IRIS and Δ-IRIS, whose steps are tokens (Micheli et al., 2023 and 2024)."""

from dataclasses import dataclass
from typing import cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.attention import Attention
from tokenworlds.nets.fast.attention import Dropout
from tokenworlds.nets.readout import small_normal
from tokenworlds.nets.transformer import (
    PreNormBlock,
    TransformerCarry,
    TransformerStack,
    add_positions,
    check_heads,
)


class TokenTransformer(TransformerStack, Component):
    """Learned positions, pre-norm blocks and a last norm.

    Positions count from the start of the history. Worlds start a new history before they run out;
    otherwise a token attends to as many tokens as there are positions, and all later tokens share
    the last position.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["TokenTransformer"]):
        """`dropout` acts on the input, on both summands of a block and on the attention weights."""

        width: int = 256
        layers: int = 10
        heads: int = 4
        positions: int = 340
        dropout: float = 0.1

    def __init__(self, config: Config) -> None:
        check_heads(config.width, config.heads)
        super().__init__(config.width, config.positions)
        self.positions = nn.Embedding(config.positions, config.width)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(make_block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        small_normal(self)

    @property
    def max_tokens(self) -> int:
        return self.window

    def room(self, carry: TransformerCarry) -> int:
        """How many more tokens fit into the cache before any row loses one."""
        return carry.slots.held.shape[1] - int(carry.length.max())

    def embed(self, x: Float[Tensor, "B T D"], length: Int[Tensor, "B T"]) -> Tensor:
        return cast(Tensor, self.dropout(add_positions(x, length, self.positions)))

    def finish(self, x: Float[Tensor, "B T D"]) -> Tensor:
        return cast(Tensor, self.norm(x))


def make_block(config: TokenTransformer.Config) -> PreNormBlock:
    width = config.width
    attention = Attention(width, config.heads, config.dropout, biased=True)
    feedforward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    return PreNormBlock(attention, feedforward, nn.LayerNorm, config.dropout)
