"""A transformer in which every site of a frame sees every other (GIT-STORM, section 3.2)."""

from typing import cast

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class Bidirectional(nn.Module):
    """Pre-norm blocks, then two layers of GELU and norm: the summary, and the masked-token head."""

    def __init__(self, embedding: int, layers: int, heads: int, feedforward: int) -> None:
        super().__init__()
        blocks = [BidirectionalBlock(embedding, heads, feedforward) for _ in range(layers)]
        self.blocks = nn.Sequential(*blocks)
        self.summary = activated(embedding)
        self.head = activated(embedding)

    def forward(self, x: Float[Tensor, "N K embedding"]) -> Float[Tensor, "N K embedding"]:
        """What is known of each site, N frames at a time."""
        return cast(Tensor, self.head(self.summary(self.blocks(x))))


class BidirectionalBlock(nn.Module):
    """Attention and a feed-forward net, each behind a norm and added to what it read."""

    def __init__(self, embedding: int, heads: int, feedforward: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(embedding)
        self.input = nn.Linear(embedding, 3 * embedding)
        self.output = nn.Linear(embedding, embedding)
        self.feedforward_norm = nn.LayerNorm(embedding)
        self.feedforward = nn.Sequential(
            nn.Linear(embedding, feedforward), nn.GELU(), nn.Linear(feedforward, embedding)
        )

    def forward(self, x: Float[Tensor, "N K embedding"]) -> Float[Tensor, "N K embedding"]:
        """Both sums."""
        x = x + self._attend(self.attention_norm(x))
        return cast(Tensor, x + self.feedforward(self.feedforward_norm(x)))

    def _attend(self, x: Float[Tensor, "N K embedding"]) -> Float[Tensor, "N K embedding"]:
        query, key, value = rearrange(
            self.input(x), "n k (three h p) -> three n h k p", three=3, h=self.heads
        )
        seen = functional.scaled_dot_product_attention(query, key, value)
        return cast(Tensor, self.output(rearrange(seen, "n h k p -> n k (h p)")))


def activated(embedding: int) -> nn.Sequential:
    """A linear layer with GELU, then a norm."""
    return nn.Sequential(nn.Linear(embedding, embedding), nn.GELU(), nn.LayerNorm(embedding))
