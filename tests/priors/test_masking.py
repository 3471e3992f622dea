"""The masks of MaskGIT, in training and in sampling."""

import math

import pytest
import torch

from tokenworlds.priors.maskgit import mask_tokens, masked_count, partition

CPU = torch.device("cpu")


def test_the_schedule_masks_as_many_tokens_as_in_the_paper() -> None:
    place = torch.linspace(0, 1, 100_001)[:-1]
    count = masked_count(place, 32)
    assert count.float().mean().item() == pytest.approx(20.84, abs=0.04)
    everything = 2 / math.pi * math.acos(31 / 32)
    assert (count == 32).float().mean().item() == pytest.approx(everything, abs=1e-3)
    assert everything == pytest.approx(0.16, abs=0.005)


@pytest.mark.parametrize("tokens", [1, 2, 32])
def test_at_least_one_token_is_masked_and_at_most_all(tokens: int) -> None:
    count = masked_count(torch.tensor([0.0, 0.5, 1.0]), tokens)
    assert count[0] == tokens
    assert count[2] == 1


def test_rows_are_masked_independently_and_tokens_uniformly() -> None:
    torch.manual_seed(0)
    masked = mask_tokens((40, 500), 8, CPU)
    assert masked.shape == (40, 500, 8)
    share = masked.float().mean(dim=(0, 1))
    torch.testing.assert_close(share, share.mean().expand(8), atol=0.02, rtol=0)
    assert len(masked.flatten(0, 1).unique(dim=0)) == 2**8 - 1


@pytest.mark.parametrize(("tokens", "parts"), [(8, 1), (8, 3), (8, 8), (32, 5)])
def test_parts_cover_each_token_once_and_have_equal_sizes(tokens: int, parts: int) -> None:
    generator = torch.Generator().manual_seed(0)
    parted = torch.stack(list(partition(50, tokens, parts, generator, CPU)))
    assert parted.shape == (parts, 50, tokens)
    assert (parted.sum(0) == 1).all()
    sizes = parted.sum(-1)
    assert sizes.min() >= tokens // parts
    assert sizes.max() <= math.ceil(tokens / parts)


def test_rows_are_partitioned_independently_and_uniformly() -> None:
    generator = torch.Generator().manual_seed(0)
    first, _ = partition(30_000, 4, 2, generator, CPU)
    partitions, count = first.unique(dim=0, return_counts=True)
    assert len(partitions) == 6
    torch.testing.assert_close(count / 30_000, torch.full((6,), 1 / 6), atol=0.01, rtol=0)
