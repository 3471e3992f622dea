"""Cross-attention from the action to the codes of the frame (GIT-STORM, E.4.1).

The paper only says "cross attention between state and actions"; in its code the query is the
action, with two heads. The other shapes are our choice.
"""

from dataclasses import dataclass

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.nets.fast.tokens import map_each_code, pick_rows


class CrossAttention(nn.Module, Component):
    """The embedded action attends to the embedded and normalised codes, then a feed-forward network
    follows; both have a shortcut and a norm. Each token has its own embedding table."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["CrossAttention"]):
        """`size` is the width of an embedded code."""

        size: int = 64
        heads: int = 2

    def __init__(
        self, config: Config, *, tokens: int, vocabulary: int, actions: int, width: int
    ) -> None:
        super().__init__()
        if width % config.heads:
            raise UserError(f"heads={config.heads} of the mixer must divide the width {width}")
        self.heads = config.heads
        self.codes = nn.Parameter(torch.randn(tokens * vocabulary, config.size))
        self.token_norm = nn.LayerNorm(config.size)
        self.action = nn.Linear(actions, width)
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(config.size, 2 * width, bias=False)
        self.attended = nn.Linear(width, width, bias=False)
        self.attended_norm = nn.LayerNorm(width)
        self.feedforward = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)
        )
        self.norm = nn.LayerNorm(width)

    def forward(
        self, sample: Float[Tensor, "*rest K V"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        return self._finish(map_each_code(sample, self.codes), action)

    def look_up(
        self, index: Int[Tensor, "*rest K"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        return self._finish(pick_rows(index, self.codes), action)

    def _finish(self, tokens: Tensor, action: Tensor) -> Tensor:
        flat, lead = pack([self.token_norm(tokens)], "* k d")
        query, _ = pack([self.action(action)], "* d")
        hidden = self.attended_norm(query + self.attended(self._attend(query, flat)))
        result: Tensor = unpack(self.norm(hidden + self.feedforward(hidden)), lead, "* d")[0]
        return result

    def _attend(
        self, query: Float[Tensor, "B D"], tokens: Float[Tensor, "B K size"]
    ) -> Float[Tensor, "B D"]:
        queries = rearrange(self.query(query), "b (h p) -> b h 1 p", h=self.heads)
        joint = rearrange(self.key_value(tokens), "b k (n h p) -> n b h k p", n=2, h=self.heads)
        attended = functional.scaled_dot_product_attention(queries, *joint.unbind())
        return rearrange(attended, "b h 1 p -> b (h p)")
