"""Linear maps of tokens from indices, against the plain forms on one-hots."""

import pytest
import torch
from torch import nn

from tokenworlds.core.types import TokenFeature, one_hots, stack_features
from tokenworlds.nets.blocks import Perceptron
from tokenworlds.nets.fast.tokens import (
    MIN_STATES,
    map_codes,
    map_each_code,
    map_feature,
    pick_rows,
    plain_map_feature,
    sum_rows,
)


def some_tokens(rows: int) -> TokenFeature:
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(5, (2, rows // 2, 3), generator=generator)
    return TokenFeature(index, torch.randn(2, rows // 2, 4, generator=generator), vocabulary=5)


@pytest.mark.parametrize("rows", [2, MIN_STATES])
def test_a_layer_maps_indices_as_it_maps_one_hots(rows: int) -> None:
    feature, layer = some_tokens(rows), nn.Linear(3 * 5 + 4, 6)
    results = []
    for apply in (map_feature, plain_map_feature):
        mapped = apply(layer, feature)
        weights = torch.linspace(-1, 1, mapped.numel()).view(mapped.shape)
        gradients = torch.autograd.grad((mapped * weights).sum(), list(layer.parameters()))
        results.append([mapped, *gradients])
    for from_index, from_one_hots in zip(*results, strict=True):
        torch.testing.assert_close(from_index, from_one_hots, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("hidden", [(), (8, 8)])
def test_a_perceptron_reads_tokens(hidden: tuple[int, ...]) -> None:
    coded, network = some_tokens(MIN_STATES), Perceptron(3 * 5 + 4, hidden, 2)
    torch.testing.assert_close(network(coded), network(coded.to_dense()), rtol=1e-5, atol=1e-5)


def test_rows_of_a_table_are_its_products_with_one_hots() -> None:
    table, index = torch.randn(3 * 5, 6), some_tokens(8).index
    sample = one_hots(index, 5)
    torch.testing.assert_close(sum_rows(index, table), map_codes(sample, table))
    torch.testing.assert_close(pick_rows(index, table), map_each_code(sample, table))


def test_one_hots_are_ones_where_indices_point() -> None:
    expected = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    assert torch.equal(one_hots(torch.tensor([2, 0]), 3), expected)


def test_features_are_stacked_with_or_without_tokens() -> None:
    coded = some_tokens(2)
    both = stack_features([coded, coded])
    assert isinstance(both, TokenFeature)
    assert len(both) == 2
    assert torch.equal(both[1:].to_dense()[0], coded.to_dense())
    numbers = stack_features([coded.vector, coded.vector])
    assert isinstance(numbers, torch.Tensor)
    assert numbers.shape == (2, 2, 1, 4)
