"""PixelCNN: its receptive field, and samples that agree with its predictions."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from tokenworlds.core.errors import UserError
from tokenworlds.nets.distributions import sample_index
from tokenworlds.priors.pixelcnn import PixelCNN


def make_prior(side: int = 3, vocabulary: int = 3, **choices: Any) -> PixelCNN:
    torch.manual_seed(0)
    config = PixelCNN.Config(**{"channels": 8, **choices})
    prior = config.build(width=2 * side**2, tokens=side**2, vocabulary=vocabulary).double()
    with torch.no_grad():
        for parameter in prior.parameters():
            parameter.mul_(2.0)
    return prior


def feature_of(side: int, *lead: int) -> Tensor:
    return torch.randn(*lead, 2 * side**2, dtype=torch.float64)


def influence(prior: PixelCNN, side: int) -> Tensor:
    """[source, target]: whether the token of one cell changes the prediction of another."""
    index, feature = torch.zeros(side**2, dtype=torch.long), feature_of(side)
    changed = index + torch.eye(side**2, dtype=torch.long)
    before = prior.log_probs(feature, index)
    after = prior.log_probs(feature.expand(side**2, -1), changed)
    return ((after - before).abs() > 1e-12).any(-1)


@pytest.mark.parametrize("side", [1, 2, 3, 6])
@torch.no_grad()
def test_a_cell_sees_exactly_the_cells_before_it(side: int) -> None:
    earlier = torch.ones(side**2, side**2, dtype=torch.bool).triu(1)
    assert torch.equal(influence(make_prior(side), side), earlier)


@torch.no_grad()
def test_a_small_kernel_sees_only_earlier_cells_nearby() -> None:
    side = 5
    row, column = torch.arange(side**2) // side, torch.arange(side**2) % side
    up = row[None] - row[:, None]
    left = column[None] - column[:, None]
    beside = (up == 0) & (left > 0) & (left <= 2)
    over = (up > 0) & (up <= 2) & (left.abs() <= 2)
    prior = make_prior(side, kernel=3, layers=2)
    assert torch.equal(influence(prior, side), beside | over)


def test_a_cell_reads_its_own_slice_of_the_history() -> None:
    prior, feature = make_prior(kernel=3, layers=2), feature_of(3).requires_grad_()
    index = torch.zeros(9, dtype=torch.long)
    for cell in range(9):
        log_prob = prior.log_probs(feature, index)[cell, 0]
        (gradient,) = torch.autograd.grad(log_prob, feature)
        assert gradient.view(9, 2)[cell].all()
        below = 3 * (cell // 3 + 1)
        assert not gradient.view(9, 2)[below:].any()


@pytest.mark.parametrize(("side", "kernel"), [(1, 3), (3, 3), (4, 5)])
@torch.no_grad()
def test_every_cell_is_sampled_from_its_prediction(
    side: int, kernel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prior, feature = make_prior(side, kernel=kernel), feature_of(side, 2, 5)
    sampled_from: list[Tensor] = []

    def record(log_probs: Tensor, generator: Any, temperature: float) -> Tensor:
        sampled_from.append(log_probs)
        return sample_index(log_probs, generator, temperature)

    monkeypatch.setattr("tokenworlds.priors.pixelcnn.sample_index", record)
    index = prior.sample(feature, torch.Generator().manual_seed(0))
    assert len(index.unique()) > 1
    predicted = prior.log_probs(feature, index)
    torch.testing.assert_close(torch.stack(sampled_from, 1).view_as(predicted), predicted)


@torch.no_grad()
def test_frames_are_sampled_by_the_product_of_their_conditionals() -> None:
    prior, feature = make_prior(2, vocabulary=2, unimix=0.1), feature_of(2)
    frames = torch.tensor(list(itertools.product(range(2), repeat=4)))
    predicted = prior.log_probs(feature.expand(16, -1), frames)
    chances = predicted.gather(-1, frames.unsqueeze(-1)).sum((-1, -2)).exp()
    assert chances.sum().item() == pytest.approx(1.0)
    index = prior.sample(feature.expand(20_000, -1), torch.Generator().manual_seed(0))
    number = (index * torch.tensor([8, 4, 2, 1])).sum(-1)
    share = torch.bincount(number, minlength=16) / 20_000
    torch.testing.assert_close(share.double(), chances, atol=0.02, rtol=0)


@pytest.mark.parametrize(
    ("choices", "dimensions", "words"),
    [
        ({}, {"tokens": 6}, "square grid of tokens, not 6"),
        ({}, {"width": 13}, "history of 13 into 4 equal slices"),
        ({"layers": 1}, {}, "2 or more"),
        ({"kernel": 4}, {}, "odd"),
        ({"kernel": 1}, {}, "odd and 3 or more"),
    ],
)
def test_invalid_sizes_are_an_error(
    choices: dict[str, Any], dimensions: dict[str, int], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        PixelCNN.Config(**choices).build(**{"width": 8, "tokens": 4, "vocabulary": 3, **dimensions})
