"""The codebook of unit vectors: moving averages, usage and revival."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tokenworlds.nets.codebooks import UnitCodebook


def codebook(codes: int = 4, width: int = 2, **choices: Any) -> UnitCodebook:
    torch.manual_seed(0)
    return UnitCodebook.Config(codes=codes, width=width, **choices).build()


def compass(**choices: Any) -> UnitCodebook:
    """East, north, west and south."""
    made = codebook(**choices)
    made.vectors.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]))
    return made


def assign(book: UnitCodebook, points: Tensor) -> None:
    book.update(points.unsqueeze(1), book.similarity(points).argmax(-1).unsqueeze(1))


def unit(*values: float) -> Tensor:
    return torch.nn.functional.normalize(torch.tensor(values), dim=0)


def overused(codes: int, **choices: Any) -> UnitCodebook:
    """A codebook whose running usage is all on code 0."""
    book = codebook(codes, 8, **choices)
    book.vectors.copy_(torch.nn.functional.normalize(book.vectors, dim=-1))
    book.usage.copy_(torch.eye(codes)[0])
    return book


def data(number: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(number, 8), dim=-1)


def moved(book: UnitCodebook, points: Tensor) -> list[int]:
    """The codes that were moved onto a vector of the batch."""
    book.update(points.unsqueeze(1), torch.zeros(len(points), 1, dtype=torch.long))
    same = (book.vectors[:, None] == points).all(-1).any(-1)
    return same.nonzero().flatten().tolist()


def test_initial_codes_are_short_and_evenly_used() -> None:
    book = codebook(64, 8)
    assert book.vectors.abs().max() <= 1 / 64
    torch.testing.assert_close(book.usage, torch.full((64,), 1 / 64))
    torch.testing.assert_close(book.entropy(), torch.tensor(6.0))


def test_one_update_turns_a_code_towards_the_mean_of_its_vectors() -> None:
    book = compass(decay=0.9, usage_decay=0.5)
    points = torch.stack([unit(0.8, 0.6), unit(1.0, 0.0), unit(0.0, 1.0)])
    assign(book, points)
    mean = unit(0.9, 0.3)
    expected = 0.9 * torch.tensor([1.0, 0.0]) + 0.1 * mean
    torch.testing.assert_close(book.vectors[0], expected / expected.norm())
    torch.testing.assert_close(book.usage, torch.tensor([11 / 24, 7 / 24, 1 / 8, 1 / 8]))


def test_codes_without_vectors_keep_their_direction_and_all_get_length_one() -> None:
    book = codebook(16, 8)
    before = torch.nn.functional.normalize(book.vectors, dim=-1)
    book.update(data(5).unsqueeze(1), torch.full((5, 1), 3))
    torch.testing.assert_close(book.vectors.norm(dim=-1), torch.ones(16))
    idle = torch.arange(16) != 3
    torch.testing.assert_close(book.vectors[idle], before[idle])
    assert (book.vectors[3] - before[3]).abs().max() > 0.01


def test_an_empty_batch_changes_nothing() -> None:
    book = codebook()
    before = {name: value.clone() for name, value in book.state_dict().items()}
    book.update(torch.zeros(0, 4, 2), torch.zeros(0, 4, dtype=torch.long))
    for name, value in book.state_dict().items():
        assert torch.equal(value, before[name])


def test_all_state_of_an_update_is_saved() -> None:
    assert set(codebook().state_dict()) == {"vectors", "usage", "updates"}


@pytest.mark.parametrize(
    ("shares", "updates", "revivals", "revived"),
    [
        # One code of 16 in use: an entropy of 0 bits is a collapse, whatever the cap.
        (1, 1000, 0, True),
        (1, 1000, 400, True),
        # Three codes in use: 1.6 bits, narrow (below 2) but no collapse.
        (3, 0, 0, False),
        (3, 399, 400, True),
        (3, 400, 400, False),
        (3, 10**6, None, True),
        # Eight codes in use: 3 bits are enough.
        (8, 0, None, False),
    ],
)
def test_codes_are_revived_when_usage_is_narrow_and_early_or_collapsed(
    shares: int, updates: int, revivals: int | None, revived: bool
) -> None:
    book = overused(16, revivals=revivals)
    used = torch.zeros(16)
    used[:shares] = 1 / shares
    book.usage.copy_(used)
    book.updates.fill_(updates)
    points = data(16)
    index = torch.arange(16) % shares
    book.update(points.unsqueeze(1), index.unsqueeze(1))
    same = (book.vectors[:, None] == points).all(-1).any(-1)
    assert same[shares:].all() == revived
    assert same.any() == revived
    assert int(book.updates) == updates + 1


def test_only_codes_below_a_tenth_of_an_even_share_are_expired() -> None:
    book = overused(16)
    threshold = 1 / 160
    # The shares shrink by 0.98 before the comparison.
    book.usage[1], book.usage[2] = threshold / 0.98 * 1.01, threshold / 0.98 * 0.99
    assert moved(book, data(32)) == [2, *range(3, 16)]
    torch.testing.assert_close(book.usage[2:], torch.full((14,), 1 / 16))
    assert math.isclose(float(book.usage[1]), threshold * 1.01, rel_tol=1e-5)


def test_no_vector_is_given_to_two_codes() -> None:
    book, points = overused(16), data(32)
    places = moved(book, points)
    assert places == list(range(1, 16))
    assert len(torch.unique(book.vectors[places], dim=0)) == 15


def test_at_most_one_code_per_vector_is_revived_at_random() -> None:
    chosen = set()
    for seed in range(8):
        book, points = overused(16), data(3)
        torch.manual_seed(seed)
        places = moved(book, points)
        assert len(places) == 3
        chosen.add(tuple(places))
    assert len(chosen) > 1
