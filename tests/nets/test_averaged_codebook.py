"""The averaged codebook against values computed by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tokenworlds.nets.codebooks import AveragedCodebook


def build(**choices: Any) -> AveragedCodebook:
    torch.manual_seed(0)
    return AveragedCodebook.Config(**{"codes": 2, "width": 1, "decay": 0.9, **choices}).build()


def assign(codebook: AveragedCodebook, points: list[float], index: list[int]) -> Tensor:
    """The vectors after an update with these points and their codes."""
    codebook.update(torch.tensor(points).reshape(-1, 1, 1), torch.tensor(index).reshape(-1, 1))
    return codebook.vectors.flatten().clone()


@pytest.mark.parametrize(
    ("corrected", "first", "second"),
    [
        # counts 0.2, 0.1 then 0.28, 0.09; sums 0.6, 1 then 1.04, 0.9; corrections 0.1 then 0.19
        ("both", [6 / 2, 10 / 1], [1.04 / 0.28, 10.0]),
        ("sums", [6 / 0.2, 10 / 0.1], [1.04 / 0.19 / 0.28, 0.9 / 0.19 / 0.09]),
    ],
)
def test_two_updates_by_hand(corrected: str, first: list[float], second: list[float]) -> None:
    codebook = build(smoothing=0.0, corrected=corrected)
    moved = assign(codebook, [2.0, 4.0, 10.0], [0, 0, 1])
    torch.testing.assert_close(moved, torch.tensor(first))
    torch.testing.assert_close(assign(codebook, [5.0], [0]), torch.tensor(second))


def test_smoothing_evens_out_counts_and_keeps_their_total() -> None:
    codebook = build(smoothing=0.5)
    # counts 2, 1 become (2.5, 1.5) * 3 / 4
    moved = assign(codebook, [2.0, 4.0, 10.0], [0, 0, 1])
    torch.testing.assert_close(moved, torch.tensor([6 / 1.875, 10 / 1.125]))


def test_a_code_never_chosen_stays_at_the_origin_and_an_unused_one_shrinks() -> None:
    codebook = build(codes=3, smoothing=1e-3)
    waiting = assign(codebook, [5.0, 5.0, 1.0], [0, 0, 1])
    assert waiting[2] == 0
    for _ in range(200):
        idle = assign(codebook, [5.0, 5.0], [0, 0])
    torch.testing.assert_close(idle, torch.tensor([5.0, 0.0, 0.0]), atol=0.01, rtol=0)


def test_initial_vectors_are_uniform_within_their_bound() -> None:
    codebook = AveragedCodebook.Config().build()
    bound = (3 / 128) ** 0.5
    assert codebook.vectors.shape == (128, 32)
    assert 0.95 * bound < codebook.vectors.abs().max() <= bound
    # the variance of U(-b, b) is b^2 / 3
    torch.testing.assert_close(codebook.vectors.var(), torch.tensor(1 / 128), atol=0, rtol=0.05)
    assert not list(codebook.parameters())


def test_distance_is_squared_and_in_full_precision() -> None:
    codebook = build(width=2)
    codebook.vectors.copy_(torch.tensor([[0.0, 0.0], [100.01, 0.0]]))
    points = torch.tensor([[3.0, 4.0], [100.0, 0.0]])
    expected = torch.cdist(points.double(), codebook.vectors.double()).square().float()
    with torch.autocast("cpu", dtype=torch.float16):
        distance = codebook.distance(points)
    torch.testing.assert_close(distance, expected, atol=2e-3, rtol=1e-5)


def test_an_empty_batch_changes_nothing() -> None:
    codebook = build()
    before = {name: value.clone() for name, value in codebook.state_dict().items()}
    codebook.update(torch.empty(0, 4, 1), torch.empty(0, 4, dtype=torch.long))
    for name, value in codebook.state_dict().items():
        assert torch.equal(value, before[name]), name
