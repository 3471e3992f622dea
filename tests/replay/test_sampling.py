import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tokenworlds.core.config import ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.protocols import Sampler
from tokenworlds.replay.sampling import (
    DynamicFrequency,
    EpisodeCounts,
    Uniform,
    probabilities,
    sample_indices,
)
from tokenworlds.replay.segments import Windows

BATCHES = {"world": 2, "behaviour": 6}


def dynamic(**choices: float) -> DynamicFrequency:
    return DynamicFrequency.Config(**choices).build(batches=BATCHES)


def counting(world: list[list[int]], behaviour: list[list[int]]) -> DynamicFrequency:
    sampler = dynamic()
    sampler.restore({"world": np.array(world), "behaviour": np.array(behaviour)})
    return sampler


def assert_frequencies(observed: NDArray[np.int64], expected: NDArray[np.float64]) -> None:
    """Chi-square: five standard deviations above its mean would be a wrong distribution."""
    total = observed.sum() * expected
    statistic = ((observed - total) ** 2 / total).sum()
    freedom = len(expected) - 1
    assert statistic < freedom + 5 * np.sqrt(2 * freedom)


@given(
    config=st.sampled_from([Uniform.Config(), DynamicFrequency.Config(), EpisodeCounts.Config()]),
    learner=st.sampled_from(sorted(BATCHES)),
    num_envs=st.integers(1, 4),
    length=st.integers(1, 9),
    extra=st.integers(0, 20),
    batch=st.integers(1, 60),
    seed=st.integers(0, 9),
)
def test_windows_never_leave_their_stream(
    config: ConfigOf[Sampler],
    learner: str,
    num_envs: int,
    length: int,
    extra: int,
    batch: int,
    seed: int,
) -> None:
    sampler = config.build(batches=BATCHES)
    rng = np.random.default_rng(seed)
    for steps in (length, length + extra):
        starts = sampler.sample(learner, Windows(num_envs, steps, length), batch, rng)
        assert starts.shape == (batch, 2)
        assert (starts >= 0).all()
        assert (starts[:, 0] < num_envs).all()
        assert (starts[:, 1] + length <= steps).all()


def test_uniform_sampling_is_uniform_over_all_windows_that_fit() -> None:
    windows = Windows(num_envs=2, steps=7, length=4)
    starts = (
        Uniform.Config()
        .build(batches=BATCHES)
        .sample("world", windows, 20_000, np.random.default_rng(0))
    )
    observed = np.bincount(starts[:, 0] * 4 + starts[:, 1], minlength=8)
    assert_frequencies(observed, np.full(8, 1 / 8))


def test_drawing_without_replacement_has_the_probabilities_of_drawing_in_turn() -> None:
    scores = np.array([0.0, -1.0, 0.7, -3.0])
    p = np.exp(scores) / np.exp(scores).sum()
    pairs = list(itertools.permutations(range(4), 2))
    exact = np.array([p[i] * p[j] / (1 - p[i]) for i, j in pairs])
    rng = np.random.default_rng(0)
    seen = Counter(tuple(sample_indices(scores, 2, rng).tolist()) for _ in range(8_000))
    assert_frequencies(np.array([seen[pair] for pair in pairs]), exact)


def test_drawing_more_than_there_are_is_with_replacement() -> None:
    scores = np.array([0.0, -1.0, 0.7])
    index = sample_indices(scores, 20_000, np.random.default_rng(0))
    observed = np.bincount(index, minlength=3)
    assert_frequencies(observed, np.exp(scores) / np.exp(scores).sum())


def test_drawing_all_there_are_takes_each_once() -> None:
    index = sample_indices(np.array([0.0, -50.0, -1e6]), 3, np.random.default_rng(0))
    assert sorted(index.tolist()) == [0, 1, 2]


def test_the_world_prefers_windows_it_saw_less_often() -> None:
    trained = [[0, 3, 10, 25], [1, 1, 0, 40]]
    sampler = counting(trained, [[0] * 4] * 2)
    scores = sampler.scores("world", Windows(num_envs=2, steps=6, length=3))
    weights = np.exp(-np.array(trained) / 10.0)
    np.testing.assert_allclose(
        probabilities(scores.ravel()), weights.ravel() / weights.sum(), rtol=1e-12
    )


def test_imagination_has_the_papers_score() -> None:
    trained = np.array([[0, 3, 10, 25], [1, 1, 0, 40]])
    imagined = np.array([[0, 30, 9, 300], [3, 2, 60, 120]])
    sampler = counting(trained.tolist(), imagined.tolist())
    scores = sampler.scores("behaviour", Windows(num_envs=2, steps=4, length=1))
    scaled = imagined / (BATCHES["behaviour"] / BATCHES["world"])
    literal = (trained - 1.0 * scaled - 1.0 * np.maximum(0, trained - scaled)) / 10.0
    np.testing.assert_allclose(scores, literal, atol=1e-12)


def test_imagination_is_uniform_where_the_world_trained_at_least_as_often() -> None:
    sampler = counting([[5, 1, 9]], [[15, 3, 0]])
    p = probabilities(sampler.scores("behaviour", Windows(1, 3, 1)).ravel())
    np.testing.assert_allclose(p, 1 / 3)


def test_temperatures_flatten_their_own_learner() -> None:
    sampler = dynamic(temperature=1.0, behaviour_temperature=100.0)
    sampler.restore({"world": np.array([[0, 2]]), "behaviour": np.array([[6, 6]])})
    windows = Windows(1, 2, 1)
    assert sampler.scores("world", windows).tolist() == [[0.0, -2.0]]
    assert sampler.scores("behaviour", windows).tolist() == [[-0.02, 0.0]]


def test_huge_counts_neither_overflow_nor_starve() -> None:
    many = 2_000_000
    sampler = counting([[many, many, many + 10]], [[0, 0, 0]])
    p = probabilities(sampler.scores("world", Windows(1, 3, 1)).ravel())
    weights = np.array([1, 1, np.exp(-1.0)])
    np.testing.assert_allclose(p, weights / weights.sum())
    starts = sampler.sample("world", Windows(1, 3, 1), 30, np.random.default_rng(0))
    assert set(starts[:, 1].tolist()) == {0, 1, 2}


def test_each_learner_counts_what_it_drew() -> None:
    sampler, rng = dynamic(), np.random.default_rng(0)
    expected = {name: np.zeros((2, 12), np.int64) for name in BATCHES}
    for steps, (learner, length, batch) in itertools.product(
        (8, 12), (("world", 5, 3), ("behaviour", 2, 40))
    ):
        windows = Windows(2, steps, length)
        for stream, time in sampler.sample(learner, windows, batch, rng):
            expected[learner][stream, time] += 1
    for learner, counts in expected.items():
        np.testing.assert_array_equal(sampler.counts(learner, Windows(2, 12, 1)), counts)


def test_no_window_is_drawn_twice_in_a_batch_if_there_are_enough() -> None:
    sampler, rng = dynamic(), np.random.default_rng(0)
    for _ in range(20):
        starts = sampler.sample("behaviour", Windows(2, 12, 5), 16, rng)
        assert len(np.unique(starts, axis=0)) == 16


def test_the_world_catches_up_on_new_steps() -> None:
    sampler, rng = dynamic(), np.random.default_rng(0)
    for _ in range(400):
        sampler.sample("world", Windows(1, 20, 1), 2, rng)
    for _ in range(400):
        sampler.sample("world", Windows(1, 40, 1), 2, rng)
    counts = sampler.counts("world", Windows(1, 40, 1))[0]
    # Uniform draws would leave the new half at 20 against 60 each.
    assert counts[20:].mean() > 0.7 * counts[:20].mean()


def test_restored_counts_give_the_same_draws() -> None:
    sampler, rng = dynamic(), np.random.default_rng(0)
    for steps in (10, 20):
        for learner, batch in BATCHES.items():
            sampler.sample(learner, Windows(2, steps, 3), batch, rng)
    state = sampler.state()
    twin = dynamic()
    twin.restore(state)
    for seed, learner in itertools.product(range(5), BATCHES):
        windows = Windows(2, 20 + seed, 3)
        drawn = [
            s.sample(learner, windows, 4, np.random.default_rng(seed)) for s in (sampler, twin)
        ]
        np.testing.assert_array_equal(drawn[0], drawn[1])
    assert sum(counts.sum() for counts in state.values()) == 2 * sum(BATCHES.values())


def test_a_learner_without_counts_is_named() -> None:
    with pytest.raises(UserError, match="did you mean 'world'"):
        dynamic().sample("wrold", Windows(1, 3, 1), 1, np.random.default_rng(0))


def test_a_behaviour_needs_a_world_to_be_held_against() -> None:
    with pytest.raises(UserError, match="'world'"):
        DynamicFrequency.Config().build(batches={"behaviour": 4})
