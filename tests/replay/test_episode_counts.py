"""Sampling of episodes by their counts, and of windows around their steps."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from replay_examples import open_store, random_play, record
from test_sampling import assert_frequencies

from tokenworlds.core.errors import UserError
from tokenworlds.replay.sampling import EpisodeCounts, Episodes, Windows

BATCHES = {"tokenizer": 8, "world": 8, "behaviour": 8}
LENGTHS = (2, 10, 28, 60)
"""Lengths of the episodes of one environment of 100 steps."""


def sampler(exponent: float = 1.0, count_after: int = 0) -> EpisodeCounts:
    return EpisodeCounts.Config(exponent=exponent, count_after=count_after).build(batches=BATCHES)


def flags(*num_envs: tuple[int, ...]) -> NDArray[np.bool_]:
    """`first` of environments with episodes of these lengths."""
    first = np.zeros((len(num_envs), sum(num_envs[0])), np.bool_)
    for row, lengths in zip(first, num_envs, strict=True):
        row[np.cumsum((0, *lengths[:-1]))] = True
    return first


def windows(first: NDArray[np.bool_], length: int = 1) -> Windows:
    num_envs, steps = first.shape
    return Windows(num_envs, steps, length, first)


def owners(starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each episode of `LENGTHS` holds the step at which a window of one step starts."""
    ends = np.cumsum(LENGTHS)
    return np.bincount(np.searchsorted(ends, starts[:, 1], side="right"), minlength=len(LENGTHS))


def state(*world: int) -> dict[str, NDArray[np.int64]]:
    return {name: np.array(world if name == "world" else (), np.int64) for name in BATCHES}


@pytest.mark.parametrize("exponent", [0.0, 1.0, 5.0])
def test_the_weight_of_an_episode_is_a_power_of_one_over_its_count_plus_one(
    exponent: float,
) -> None:
    by_count = sampler(exponent)
    by_count.restore(state(0, 1, 2, 0))
    expected = np.array([1.0, 0.5, 1 / 3, 1.0]) ** exponent
    expected /= expected.sum()
    found = windows(flags(LENGTHS))
    np.testing.assert_allclose(by_count.weights("world", found), expected)
    starts = by_count.sample("world", found, 20_000, np.random.default_rng(0))
    assert_frequencies(owners(starts), expected)


def test_all_steps_of_an_episode_are_equally_likely() -> None:
    starts = sampler(0.0).sample("world", windows(flags(LENGTHS)), 40_000, np.random.default_rng(1))
    expected = np.concatenate([np.full(length, 1 / length / 4) for length in LENGTHS])
    assert_frequencies(np.bincount(starts[:, 1], minlength=100), expected)


def test_samples_are_counted_for_their_learner() -> None:
    by_count, found = sampler(), windows(flags(LENGTHS))
    starts = by_count.sample("world", found, 500, np.random.default_rng(2))
    np.testing.assert_array_equal(by_count.state()["world"], owners(starts))
    np.testing.assert_allclose(by_count.weights("tokenizer", found), 0.25)
    by_count.sample("behaviour", found, 30, np.random.default_rng(3))
    sums = {name: int(counts.sum()) for name, counts in by_count.state().items()}
    assert sums == {"tokenizer": 0, "world": 500, "behaviour": 30}


def test_samples_are_not_counted_while_replay_is_small() -> None:
    by_count, first = sampler(count_after=100), flags(LENGTHS)
    by_count.sample("world", windows(first), 50, np.random.default_rng(0))
    assert by_count.state()["world"].sum() == 0
    more = np.pad(first, ((0, 0), (0, 1)))
    by_count.sample("world", windows(more), 50, np.random.default_rng(0))
    assert by_count.state()["world"].sum() == 50


def test_the_step_is_anywhere_in_a_window_but_last_in_one_of_the_behaviour() -> None:
    # Only the second episode, one step at 50, is ever sampled.
    first, rng = flags((50, 1, 49)), np.random.default_rng(4)
    never = 10**9
    by_count = sampler(5.0)
    by_count.restore({name: np.array([never, 0, never]) for name in BATCHES})
    before = Windows(1, 100, 10, first)
    starts = sampler_starts(by_count, "behaviour", before, rng)
    assert set(starts) == {41}
    starts = sampler_starts(by_count, "world", before, rng)
    assert_frequencies(np.bincount(starts - 41, minlength=10), np.full(10, 0.1))


def sampler_starts(
    by_count: EpisodeCounts, learner: str, found: Windows, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Starts of many windows, all sampled with the same counts."""
    before, starts = by_count.state(), []
    for _ in range(100):
        starts.append(by_count.sample(learner, found, 20, rng)[:, 1])
        by_count.restore(before)
    return np.concatenate(starts)


@pytest.mark.parametrize(("learner", "most"), [("world", 90), ("behaviour", 90)])
def test_windows_are_shifted_into_their_environment(learner: str, most: int) -> None:
    found, rng = Windows(1, 100, 11, flags(LENGTHS)), np.random.default_rng(5)
    starts = sampler(0.0).sample(learner, found, 5_000, rng)[:, 1]
    assert (starts.min(), starts.max()) == (0, most - 1)


@settings(deadline=None)
@given(
    seed=st.integers(0, 99),
    num_envs=st.integers(1, 4),
    length=st.integers(1, 9),
    extra=st.lists(st.integers(0, 12), min_size=1, max_size=5),
)
def test_windows_stay_within_growing_environments(
    seed: int, num_envs: int, length: int, extra: list[int]
) -> None:
    by_count, rng = sampler(), np.random.default_rng(seed)
    first = rng.random((num_envs, length + sum(extra))) < 0.2
    for steps in length + np.cumsum(extra):
        for learner in BATCHES:
            found = Windows(num_envs, int(steps), length, first[:, :steps])
            starts = by_count.sample(learner, found, 6, rng)
            assert (starts >= 0).all()
            assert (starts[:, 0] < num_envs).all()
            assert (starts[:, 1] + length <= steps).all()


@settings(deadline=None)
@given(st.integers(0, 999), st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_episodes_found_piece_by_piece_equal_those_found_at_once(
    seed: int, parts: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    first = rng.random((3, sum(parts))) < 0.3
    grown, whole = Episodes(), Episodes()
    for steps in np.cumsum(parts):
        grown.grow(windows(first[:, :steps]))
    whole.grow(windows(first))
    for name in ("env", "begin", "end"):
        np.testing.assert_array_equal(getattr(grown, name), getattr(whole, name))
    lengths = whole.end - whole.begin
    assert lengths.min() >= 1
    assert np.bincount(whole.env, weights=lengths).tolist() == [sum(parts)] * 3


def test_only_new_steps_are_read() -> None:
    first = flags(LENGTHS)
    found = Episodes()
    found.grow(windows(first[:, :60]))
    first[:, :60] = True
    found.grow(windows(first))
    assert found.begin.tolist() == [0, 2, 12, 40]
    assert found.end.tolist() == [2, 12, 40, 100]


def test_episodes_keep_their_numbers_and_counts_as_replay_grows() -> None:
    first = flags((4, 6, 5, 5), (7, 1, 2, 10))
    by_count, rng = sampler(), np.random.default_rng(6)
    by_count.sample("world", windows(first[:, :8]), 300, rng)
    before = by_count.state()["world"]
    assert len(before) == 4  # At (0, 0), (0, 1), (4, 0) and (7, 1).
    by_count.sample("behaviour", windows(first), 10, rng)
    weights = by_count.weights("world", windows(first))
    np.testing.assert_array_equal(by_count.state()["world"], [*before, 0, 0, 0, 0])
    assert weights[4:] == pytest.approx(weights.max())


def test_a_restored_sampler_continues_with_the_same_samples() -> None:
    first = np.random.default_rng(7).random((3, 400)) < 0.1
    one, rng = sampler(2.0), np.random.default_rng(8)
    for steps in range(20, 200, 5):
        one.sample("world", windows(first[:, :steps], 7), 16, rng)
    other, again = sampler(2.0), np.random.default_rng()
    other.restore(one.state())
    again.bit_generator.state = rng.bit_generator.state
    for steps in range(200, 400, 9):
        found = windows(first[:, :steps], 7)
        for learner in BATCHES:
            left = one.sample(learner, found, 16, rng)
            np.testing.assert_array_equal(left, other.sample(learner, found, 16, again))


def test_episodes_extend_across_the_chunks_of_a_store(tmp_path: Path) -> None:
    played = random_play(2, 50)
    played.fields["first"][:] = flags((13, 17, 20), (30, 1, 19))
    store, found = open_store(tmp_path, chunk=8), Episodes()
    for end in (8, 9, 31, 50):
        record(store, played, store.length, end)
        found.grow(Windows.of(store, 1))
    assert found.begin.tolist() == [0, 0, 13, 30, 30, 31]
    assert found.env.tolist() == [0, 1, 0, 0, 1, 1]
    assert found.end.tolist() == [13, 30, 30, 50, 31, 50]


def test_episode_counts_name_the_nearest_learner() -> None:
    with pytest.raises(UserError, match=r"unknown learner 'wrold'.*'world'"):
        sampler().sample("wrold", windows(flags(LENGTHS)), 1, np.random.default_rng(0))
