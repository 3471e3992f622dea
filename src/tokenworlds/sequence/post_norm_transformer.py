"""STORM's causal transformer: learned positions and post-norm blocks."""

from dataclasses import dataclass
from functools import partial
from typing import cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.nets.attention import Attention
from tokenworlds.nets.transformer import (
    PostNormBlock,
    TransformerStack,
    add_positions,
    check_heads,
)

EPSILON = 1e-6


class PostNormTransformer(TransformerStack, Component):
    """Positions are added to the input and normed; they count from the start of the history.

    A history may be longer than the table of positions, which STORM does not allow: a step then
    attends to as many steps as there are positions, and all later steps share the last position.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["PostNormTransformer"]):
        """`dropout` acts on both summands of a block and on the attention weights."""

        width: int = 512
        layers: int = 2
        heads: int = 8
        feedforward: int = 1024
        positions: int = 64
        dropout: float = 0.1

    def __init__(self, config: Config) -> None:
        check_heads(config.width, config.heads)
        super().__init__(config.width, config.positions)
        self.positions = nn.Embedding(config.positions, config.width)
        self.norm = nn.LayerNorm(config.width, eps=EPSILON)
        self.blocks = nn.ModuleList(make_block(config) for _ in range(config.layers))

    def embed(self, x: Float[Tensor, "B T D"], length: Int[Tensor, "B T"]) -> Tensor:
        return cast(Tensor, self.norm(add_positions(x, length, self.positions)))


def make_block(config: PostNormTransformer.Config) -> PostNormBlock:
    attention = Attention(config.width, config.heads, config.dropout)
    feedforward = nn.Sequential(
        nn.Linear(config.width, config.feedforward),
        nn.ReLU(),
        nn.Linear(config.feedforward, config.width),
    )
    return PostNormBlock(attention, feedforward, partial(nn.LayerNorm, eps=EPSILON), config.dropout)
