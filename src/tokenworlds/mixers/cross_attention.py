"""An action that looks at the codes of the frame (GIT-STORM, E.4.1).

The paper says no more than "cross attention between state and actions"; its authors' query is the
action, with two heads. The other shapes are ours.
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
    """The action as the query over the frame's codes, then a feed-forward net.

    Codes are embedded with rows of their own for each token, and normed; what the embedded action
    sees in them is added to it and normed; so is what two linear maps with a ReLU make of that.
    """

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
        self.seen = nn.Linear(config.size, 2 * width, bias=False)
        self.attended = nn.Linear(width, width, bias=False)
        self.attended_norm = nn.LayerNorm(width)
        self.feedforward = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)
        )
        self.norm = nn.LayerNorm(width)

    def forward(
        self, sample: Float[Tensor, "*rest K V"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        """From one-hot samples, through which gradients reach the tokenizer."""
        return self._finish(map_each_code(sample, self.codes), action)

    def look_up(
        self, index: Int[Tensor, "*rest K"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        """The same from indices."""
        return self._finish(pick_rows(index, self.codes), action)

    def _finish(self, tokens: Tensor, action: Tensor) -> Tensor:
        flat, lead = pack([self.token_norm(tokens)], "* k d")
        asked, _ = pack([self.action(action)], "* d")
        seen = self.attended_norm(asked + self.attended(self._attend(asked, flat)))
        result: Tensor = unpack(self.norm(seen + self.feedforward(seen)), lead, "* d")[0]
        return result

    def _attend(
        self, asked: Float[Tensor, "B D"], tokens: Float[Tensor, "B K size"]
    ) -> Float[Tensor, "B D"]:
        query = rearrange(self.query(asked), "b (h p) -> b h 1 p", h=self.heads)
        joint = rearrange(self.seen(tokens), "b k (n h p) -> n b h k p", n=2, h=self.heads)
        seen = functional.scaled_dot_product_attention(query, *joint.unbind())
        return rearrange(seen, "b h 1 p -> b (h p)")
