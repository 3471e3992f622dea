"""How often codes occur."""

import torch

from tokenworlds.nets.codebooks import code_histogram, usage_metrics


def test_codes_are_counted_on_the_steps_that_count() -> None:
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(5, (3, 4, 6), generator=generator)
    mask = torch.rand(3, 4, generator=generator) < 0.5
    expected = torch.bincount(index[mask].flatten(), minlength=7).float()
    assert torch.equal(code_histogram(index, mask, 7), expected)
    assert code_histogram(index, torch.zeros_like(mask), 7).tolist() == [0.0] * 7


def test_use_is_a_share_of_codes_and_a_perplexity() -> None:
    told = usage_metrics(torch.tensor([2.0, 2.0, 0.0, 0.0]))
    assert told["code_usage"].item() == 0.5
    assert abs(told["code_perplexity"].item() - 2.0) < 1e-6
