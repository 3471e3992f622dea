from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworlds.core.progress import Every, Ratio, as_fraction


@given(st.integers(1, 50), st.lists(st.integers(1, 30), min_size=1))
def test_every_is_due_once_for_each_multiple(steps: int, strides: list[int]) -> None:
    clock, count, happened = Every(steps), 0, 0
    for _ in range(sum(strides)):
        happened += clock.due(count, count + 1)
        count += 1
    assert happened == count // steps


@pytest.mark.parametrize(
    ("previous", "now", "due"),
    [(0, 9, False), (9, 10, True), (10, 10, False), (10, 19, False), (8, 35, True), (-1, 0, True)],
)
def test_every_is_due_if_a_multiple_lies_between(previous: int, now: int, due: bool) -> None:
    assert Every(10).due(previous, now) is due


def test_every_zero_steps_is_never() -> None:
    assert not any(Every(0).due(count - 1, count) for count in range(100))


def test_a_negative_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="every -1 steps"):
        Every(-1)


@pytest.mark.parametrize(
    ("per_step", "steps", "updates"),
    [
        (1, 7, 7),
        (0, 7, 0),
        (2.5, 3, 7),
        (0.5, 3, 1),
        (0.1, 10, 1),
        (0.1, 10**12, 10**11),
        (1 / 3, 3, 1),
        (1 / 3, 3 * 10**12, 10**12),
        (2 / 3, 3, 2),
        (0.7, 10, 7),
        (1e-9, 10**9, 1),
        (1, -5, 0),
    ],
)
def test_the_updates_due_are_exact(per_step: float, steps: int, updates: int) -> None:
    assert Ratio(per_step).total(steps) == updates


@given(st.integers(0, 1000), st.integers(1, 1000), st.lists(st.integers(0, 100)))
def test_the_total_of_updates_does_not_depend_on_the_strides(
    numerator: int, denominator: int, strides: list[int]
) -> None:
    ratio, steps, done = Ratio(numerator / denominator), 0, 0
    for stride in strides:
        steps += stride
        done += ratio.due(steps, done)
    assert done == steps * numerator // denominator


def test_updates_made_too_early_are_subtracted() -> None:
    assert Ratio(1).due(steps=3, done=5) == 0
    assert Ratio(1).due(steps=7, done=5) == 2


@pytest.mark.parametrize("per_step", [-0.5, float("inf"), float("nan")])
def test_an_invalid_ratio_is_refused(per_step: float) -> None:
    with pytest.raises(ValueError, match="is no ratio"):
        Ratio(per_step)


@given(st.fractions(min_value=0, max_value=1000, max_denominator=1000))
def test_a_simple_fraction_is_recovered_from_its_float(fraction: Fraction) -> None:
    assert as_fraction(float(fraction)) == fraction
