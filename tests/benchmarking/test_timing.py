"""Times are repeated until they agree or the patience is spent."""

import pytest
from fake_clock import FakeClock

from tokenworlds.benchmarking.timing import ENOUGH, LEAST, Act, Timing, measure, summarise


def test_median_and_quartiles_of_five_times_are_among_them() -> None:
    assert summarise([5.0, 1.0, 4.0, 2.0, 3.0]) == Timing(3.0, 2.0, 4.0, 5)


def test_between_times_the_quartiles_are_interpolated() -> None:
    assert summarise([1.0, 2.0, 3.0, 4.0]) == Timing(2.5, 1.75, 3.25, 4)


def test_times_that_agree_are_soon_enough() -> None:
    clock = FakeClock()
    assert measure([clock.work(1.0)], 1000.0, clock) == [Timing(1.0, 1.0, 1.0, ENOUGH)]


def test_times_that_disagree_are_repeated_until_the_seconds_are_spent() -> None:
    clock = FakeClock()
    act = clock.work(*[1.0, 3.0] * 50)
    assert measure([act], 40.0, clock) == [Timing(2.0, 1.0, 3.0, 20)]
    assert clock.now == 40.0


def test_work_longer_than_the_budget_is_done_three_times() -> None:
    clock = FakeClock()
    assert measure([clock.work(7.0, 9.0, 8.0)], 0.5, clock) == [Timing(8.0, 7.5, 8.5, LEAST)]


def test_one_slow_time_does_not_move_the_median() -> None:
    clock = FakeClock()
    (timing,) = measure([clock.work(1.0, 60.0, 1.0)], 1e4, clock)
    assert timing.median == 1.0


def test_several_acts_take_turns_as_often_as_the_last_needs() -> None:
    clock, told = FakeClock(), list[float]()

    def taking(seconds: float) -> Act:
        def act() -> None:
            told.append(seconds)
            clock.now += seconds

        return act

    timings = measure([taking(1.0), taking(4.0)], 12.0, clock)
    assert told == [1.0, 4.0] * 3
    assert [timing.median for timing in timings] == [1.0, 4.0]


def test_times_are_scaled_with_their_spread() -> None:
    timing = Timing(2.0, 1.5, 3.0, 4)
    assert timing.scaled(4.0) == Timing(8.0, 6.0, 12.0, 4)
    assert timing.spread == timing.scaled(4.0).spread == pytest.approx(0.375)
