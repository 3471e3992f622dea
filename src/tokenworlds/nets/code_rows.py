"""Linear maps of one-hot codes, kept row by row so that looking codes up touches only their rows.

A table holds the rows of the first token's codes, then those of the second, and so on.
"""

from typing import cast

import torch
from einops import einsum, pack, rearrange, unpack
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.coded import Feature

FEW = 64


def map_codes(
    sample: Float[Tensor, "*rest K V"], table: Float[Tensor, "rows D"]
) -> Float[Tensor, "*rest D"]:
    """A linear map of all the one-hots of a frame."""
    return rearrange(sample, "... k v -> ... (k v)") @ table


def sum_rows(
    index: Int[Tensor, "*rest K"], table: Float[Tensor, "rows D"]
) -> Float[Tensor, "*rest D"]:
    """The same from indices: a one-hot times a matrix is one of its rows."""
    flat, lead = pack([name_rows(index, table)], "* k")
    (result,) = unpack(functional.embedding_bag(flat, table, mode="sum"), lead, "* d")
    return result


def map_feature(layer: nn.Linear, feature: Feature) -> Float[Tensor, "*rest D"]:
    """A linear layer on numbers, or on codes with numbers beside them as if the codes were
    one-hots. To bring the layer's weights into rows does not pay for few states."""
    if isinstance(feature, Tensor):
        return cast(Tensor, layer(feature))
    if feature.index.shape[:-1].numel() < FEW:
        return cast(Tensor, layer(feature.dense()))
    inputs = feature.index.shape[-1] * feature.vocabulary
    to_codes, to_beside = layer.weight[:, :inputs], layer.weight[:, inputs:]
    beside = functional.linear(feature.beside, to_beside, layer.bias)
    return sum_rows(feature.index, to_codes.t().contiguous()) + beside


def map_each_code(
    sample: Float[Tensor, "*rest K V"], table: Float[Tensor, "rows D"]
) -> Float[Tensor, "*rest K D"]:
    """A linear map of each one-hot, with weights of its own for each token."""
    maps = rearrange(table, "(k v) d -> k v d", k=sample.shape[-2])
    return einsum(sample, maps, "... k v, k v d -> ... k d")


def pick_rows(
    index: Int[Tensor, "*rest K"], table: Float[Tensor, "rows D"]
) -> Float[Tensor, "*rest K D"]:
    """The same from indices."""
    return functional.embedding(name_rows(index, table), table)


def name_rows(index: Int[Tensor, "*rest K"], table: Tensor) -> Int[Tensor, "*rest K"]:
    """Which row of the table belongs to each code."""
    tokens = index.shape[-1]
    return index + torch.arange(tokens, device=index.device) * (len(table) // tokens)
