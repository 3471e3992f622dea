"""Linear layers on codes: from indices the same as from one-hots."""

import pytest
import torch
from torch import nn

from tokenworlds.core.coded import Coded, one_hots, stack
from tokenworlds.nets.blocks import Perceptron
from tokenworlds.nets.code_rows import FEW, map_feature


def some_codes(rows: int) -> Coded:
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(5, (2, rows // 2, 3), generator=generator)
    return Coded(index, torch.randn(2, rows // 2, 4, generator=generator), vocabulary=5)


@pytest.mark.parametrize("rows", [2, FEW])
def test_a_layer_maps_codes_as_it_maps_their_one_hots(rows: int) -> None:
    coded, layer = some_codes(rows), nn.Linear(3 * 5 + 4, 6)
    results = []
    for feature in (coded, coded.dense()):
        mapped = map_feature(layer, feature)
        weights = torch.linspace(-1, 1, mapped.numel()).view(mapped.shape)
        gradients = torch.autograd.grad((mapped * weights).sum(), list(layer.parameters()))
        results.append([mapped, *gradients])
    for from_index, from_one_hots in zip(*results, strict=True):
        torch.testing.assert_close(from_index, from_one_hots, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("hidden", [(), (8, 8)])
def test_a_perceptron_reads_codes(hidden: tuple[int, ...]) -> None:
    coded, network = some_codes(FEW), Perceptron(3 * 5 + 4, hidden, 2)
    torch.testing.assert_close(network(coded), network(coded.dense()), rtol=1e-5, atol=1e-5)


def test_one_hots_are_ones_where_indices_point() -> None:
    expected = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    assert torch.equal(one_hots(torch.tensor([2, 0]), 3), expected)


def test_features_are_stacked_with_or_without_codes() -> None:
    coded = some_codes(2)
    both = stack([coded, coded])
    assert isinstance(both, Coded)
    assert len(both) == 2
    assert torch.equal(both[1:].dense()[0], coded.dense())
    numbers = stack([coded.beside, coded.beside])
    assert isinstance(numbers, torch.Tensor)
    assert numbers.shape == (2, 2, 1, 4)
