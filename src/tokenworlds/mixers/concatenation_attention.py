"""Codes, each beside the action, that look at one another (GIT-STORM, E.4.1).

The paper says no more than "concatenation followed by attention"; the shapes are ours.
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
    """Each code of a frame beside the action, self-attention among them, all in one vector.

    A linear map of code and action with weights of its own for each token, layer norm and ReLU
    make a vector per token; attention over the tokens of the frame is added and normed; a linear
    map of all tokens together, and a norm, make the vector of the step.
    """

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
        """From one-hot samples, through which gradients reach the tokenizer."""
        return self._finish(map_each_code(sample, self.codes), action)

    def look_up(
        self, index: Int[Tensor, "*rest K"], action: Float[Tensor, "*rest A"]
    ) -> Float[Tensor, "*rest D"]:
        """The same from indices."""
        return self._finish(pick_rows(index, self.codes), action)

    def _finish(self, tokens: Tensor, action: Tensor) -> Tensor:
        joined = tokens + self.action(action).unsqueeze(-2)
        flat, lead = pack([functional.relu(self.token_norm(joined))], "* k d")
        seen = self.attended_norm(flat + self.attended(self._attend(flat)))
        mixed = self.norm(self.output(rearrange(seen, "b k d -> b (k d)")))
        result: Tensor = unpack(mixed, lead, "* d")[0]
        return result

    def _attend(self, tokens: Float[Tensor, "B K D"]) -> Float[Tensor, "B K D"]:
        joint = rearrange(self.input(tokens), "b k (n h p) -> n b h k p", n=3, h=self.heads)
        seen = functional.scaled_dot_product_attention(*joint.unbind())
        return rearrange(seen, "b h k p -> b k (h p)")
