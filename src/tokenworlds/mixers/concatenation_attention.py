"""Each code concatenated with the action, then self-attention over codes (GIT-STORM, E.4.1).

The paper only says "concatenation followed by attention"; the shapes are our choice.
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


class ConcatenationAttention(nn.Module, Component):
    """Per token: a linear layer of code and action with its own weights, layer norm, ReLU. Then
    self-attention over the tokens with shortcut and norm, and one linear layer with norm over all
    tokens."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["ConcatenationAttention"]):
        """`size` is the width of a token."""

        size: int = 64
        heads: int = 2

    def __init__(
        self, config: Config, *, tokens: int, vocabulary: int, actions: int, width: int
    ) -> None:
        super().__init__()
        if config.size % config.heads:
            raise UserError(f"heads={config.heads} must divide the mixer's size {config.size}")
        self.heads, size = config.heads, config.size
        self.codes = nn.Parameter(torch.empty(tokens * vocabulary, size))
        self.action = nn.Linear(actions, size, bias=False)
        self.token_norm = nn.LayerNorm(size)
        self.input = nn.Linear(size, 3 * size, bias=False)
        self.attended = nn.Linear(size, size, bias=False)
        self.attended_norm = nn.LayerNorm(size)
        self.output = nn.Linear(tokens * size, width, bias=False)
        self.norm = nn.LayerNorm(width)
        bound = (vocabulary + actions) ** -0.5
        for part in (self.codes, self.action.weight):
            nn.init.uniform_(part, -bound, bound)

    def forward(
        self, sample: Float[Tensor, "*rest K V"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        return self._finish(map_each_code(sample, self.codes), action)

    def look_up(
        self, index: Int[Tensor, "*rest K"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        return self._finish(pick_rows(index, self.codes), action)

    def _finish(self, tokens: Tensor, action: Tensor) -> Tensor:
        joined = tokens + self.action(action).unsqueeze(-2)
        flat, lead = pack([functional.relu(self.token_norm(joined))], "* k d")
        hidden = self.attended_norm(flat + self.attended(self._attend(flat)))
        mixed = self.norm(self.output(rearrange(hidden, "b k d -> b (k d)")))
        result: Tensor = unpack(mixed, lead, "* d")[0]
        return result

    def _attend(self, tokens: Float[Tensor, "B K D"]) -> Float[Tensor, "B K D"]:
        joint = rearrange(self.input(tokens), "b k (n h p) -> n b h k p", n=3, h=self.heads)
        attended = functional.scaled_dot_product_attention(*joint.unbind())
        return rearrange(attended, "b h k p -> b k (h p)")
