"""The causal transformer of STEP-VQ-T: rotary positions, a sliding window, pre-norm blocks."""

import math
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.nets.attention import Attention
from tokenworlds.nets.blocks import RMSNorm
from tokenworlds.nets.transformer import PreNormBlock, TransformerStack


class Transformer(TransformerStack, Component):
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Transformer"]):
        """A step attends to itself and the `window - 1` steps before it."""

        width: int = 512
        layers: int = 4
        heads: int = 8
        feedforward: int = 2048
        window: int = 128
        dropout: float = 0.1

    def __init__(self, config: Config) -> None:
        if config.width % (2 * config.heads):
            raise UserError(
                f"heads={config.heads} of the transformer must divide half its width "
                f"{config.width}, because rotary positions turn pairs of features"
            )
        super().__init__(config.width, config.window, rotary=config.width // config.heads)
        self.blocks = nn.ModuleList(make_block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width, eps=1e-5)

    def finish(self, x: Float[Tensor, "B T D"]) -> Tensor:
        return cast(Tensor, self.norm(x))


def make_block(config: Transformer.Config) -> PreNormBlock:
    attention = Attention(config.width, config.heads)
    output = nn.Linear(config.feedforward, config.width)
    feedforward = nn.Sequential(nn.Linear(config.width, config.feedforward), nn.SiLU(), output)
    # Two sums per block: the variance of the residual stream does not grow with depth.
    with torch.no_grad():
        for last in (attention.output, output):
            last.weight.div_(math.sqrt(2 * config.layers))
    return PreNormBlock(attention, feedforward, partial(RMSNorm, eps=1e-5), config.dropout)
