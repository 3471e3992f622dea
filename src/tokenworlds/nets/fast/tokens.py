"""Linear maps of one-hot tokens from their indices: sums or rows of a table of weights.

A table holds the rows of the first token's codes, then those of the second, and so on. `map_codes`
and `map_each_code` are the plain forms, which let gradients reach the one-hots.
"""

from typing import cast

from einops import einsum, pack, rearrange, unpack
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.constants import multiples
from tokenworlds.core.types import Feature, TokenFeature

MIN_STATES = 64
"""For fewer states, transposing the weights of a layer costs more than it saves."""


def map_codes(
    sample: Float[Tensor, "*rest K V"], table: Float[Tensor, "rows D"]
) -> Float[Tensor, "*rest D"]:
    """Map all one-hots of a frame to one vector."""
    return rearrange(sample, "... k v -> ... (k v)") @ table


def sum_rows(
    index: Int[Tensor, "*rest K"], table: Float[Tensor, "rows D"]
) -> Float[Tensor, "*rest D"]:
    """`map_codes` from indices."""
    flat, lead = pack([row_numbers(index, table)], "* k")
    bags = multiples(len(flat), index.shape[-1], index.device)
    summed = functional.embedding_bag(flat.flatten(), table, bags, mode="sum")
    (result,) = unpack(summed, lead, "* d")
    return result


def map_each_code(
    sample: Float[Tensor, "*rest K V"], table: Float[Tensor, "rows D"]
) -> Float[Tensor, "*rest K D"]:
    """Map each one-hot to a vector, with weights of its own for each token."""
    maps = rearrange(table, "(k v) d -> k v d", k=sample.shape[-2])
    return einsum(sample, maps, "... k v, k v d -> ... k d")


def pick_rows(
    index: Int[Tensor, "*rest K"], table: Float[Tensor, "rows D"]
) -> Float[Tensor, "*rest K D"]:
    """`map_each_code` from indices."""
    return functional.embedding(row_numbers(index, table), table)


def row_numbers(index: Int[Tensor, "*rest K"], table: Tensor) -> Int[Tensor, "*rest K"]:
    tokens = index.shape[-1]
    return index + multiples(tokens, len(table) // tokens, index.device)


def map_feature(layer: nn.Linear, feature: Feature) -> Float[Tensor, "*rest D"]:
    """Apply a linear layer to a vector, or to tokens with numbers beside them."""
    if isinstance(feature, Tensor):
        return cast(Tensor, layer(feature))
    if feature.index.shape[:-1].numel() < MIN_STATES:
        return plain_map_feature(layer, feature)
    inputs = feature.index.shape[-1] * feature.vocabulary
    to_codes, to_beside = layer.weight[:, :inputs], layer.weight[:, inputs:]
    beside = functional.linear(feature.vector, to_beside, layer.bias)
    return sum_rows(feature.index, to_codes.t().contiguous()) + beside


def plain_map_feature(layer: nn.Linear, feature: TokenFeature) -> Float[Tensor, "*rest D"]:
    return cast(Tensor, layer(feature.to_dense()))
