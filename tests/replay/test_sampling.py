import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tokenworlds.core.config import ConfigOf, variant
from tokenworlds.core.errors import UserError
from tokenworlds.core.overrides import components, override, snake_case
from tokenworlds.core.protocols import Sampler
from tokenworlds.recipes.catalogue import load
from tokenworlds.replay import sampling
from tokenworlds.replay.sampling import (
    DynamicFrequency,
    EpisodeCounts,
    Latest,
    OnlineUniform,
    Uniform,
    Windows,
    probabilities,
    sample_indices,
)

BATCHES = {"world": 2, "behaviour": 6}
SAMPLERS = [
    *(Uniform.Config(), OnlineUniform.Config()),
    *(DynamicFrequency.Config(), EpisodeCounts.Config()),
]


def dynamic(**choices: float) -> DynamicFrequency:
    return DynamicFrequency.Config(**choices).build(batches=BATCHES)


def counting(world: list[list[int]], behaviour: list[list[int]]) -> DynamicFrequency:
    sampler = dynamic()
    sampler.restore({"world": np.array(world), "behaviour": np.array(behaviour)})
    return sampler


def assert_frequencies(observed: NDArray[np.int64], expected: NDArray[np.float64]) -> None:
    """Chi-square test: at most five standard deviations above the mean of the statistic."""
    total = observed.sum() * expected
    statistic = ((observed - total) ** 2 / total).sum()
    freedom = len(expected) - 1
    assert statistic < freedom + 5 * np.sqrt(2 * freedom)


@settings(deadline=None)
@given(
    config=st.sampled_from(SAMPLERS),
    learner=st.sampled_from(sorted(BATCHES)),
    num_envs=st.integers(1, 4),
    length=st.integers(1, 9),
    extra=st.integers(0, 20),
    batch=st.integers(1, 60),
    seed=st.integers(0, 9),
)
def test_windows_stay_within_their_environment(
    config: ConfigOf[Sampler[Any]],
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


def test_new_windows_come_first_and_once() -> None:
    sampler = OnlineUniform.Config().build(batches={"agent": 3})
    rng = np.random.default_rng(0)
    first = sampler.sample("agent", Windows(num_envs=2, steps=9, length=4), 3, rng)
    assert first.tolist() == [[0, 0], [1, 0], [0, 4]]
    again = OnlineUniform.Config().build(batches={"agent": 3})
    again.restore(sampler.state())
    for each in (sampler, again):
        second = each.sample("agent", Windows(num_envs=2, steps=12, length=4), 2, rng)
        assert second.tolist() == [[1, 4], [0, 8]]
    windows = Windows(num_envs=2, steps=12, length=4)
    counts = Counter(map(tuple, sampler.sample("agent", windows, 900, rng)[1:].tolist()))
    observed = np.array([counts[env, time] for env in range(2) for time in range(9)])
    assert_frequencies(observed, np.full(18, 1 / 18))


def test_uniform_sampling_is_uniform_over_all_windows() -> None:
    windows = Windows(num_envs=2, steps=7, length=4)
    starts = (
        Uniform.Config()
        .build(batches=BATCHES)
        .sample("world", windows, 20_000, np.random.default_rng(0))
    )
    observed = np.bincount(starts[:, 0] * 4 + starts[:, 1], minlength=8)
    assert_frequencies(observed, np.full(8, 1 / 8))


def test_sampling_without_replacement_has_the_exact_probabilities() -> None:
    scores = np.array([0.0, -1.0, 0.7, -3.0])
    p = np.exp(scores) / np.exp(scores).sum()
    pairs = list(itertools.permutations(range(4), 2))
    exact = np.array([p[i] * p[j] / (1 - p[i]) for i, j in pairs])
    rng = np.random.default_rng(0)
    pairs_sampled = Counter(tuple(sample_indices(scores, 2, rng).tolist()) for _ in range(8_000))
    assert_frequencies(np.array([pairs_sampled[pair] for pair in pairs]), exact)


def test_a_sample_larger_than_the_population_is_with_replacement() -> None:
    scores = np.array([0.0, -1.0, 0.7])
    index = sample_indices(scores, 20_000, np.random.default_rng(0))
    observed = np.bincount(index, minlength=3)
    assert_frequencies(observed, np.exp(scores) / np.exp(scores).sum())


def test_a_sample_of_the_whole_population_contains_each_index_once() -> None:
    index = sample_indices(np.array([0.0, -50.0, -1e6]), 3, np.random.default_rng(0))
    assert sorted(index.tolist()) == [0, 1, 2]


def test_the_world_prefers_windows_it_sampled_less_often() -> None:
    trained = [[0, 3, 10, 25], [1, 1, 0, 40]]
    sampler = counting(trained, [[0] * 4] * 2)
    scores = sampler.scores("world", Windows(num_envs=2, steps=6, length=3))
    weights = np.exp(-np.array(trained) / 10.0)
    np.testing.assert_allclose(
        probabilities(scores.ravel()), weights.ravel() / weights.sum(), rtol=1e-12
    )


def test_the_behaviour_has_the_score_of_the_paper() -> None:
    trained = np.array([[0, 3, 10, 25], [1, 1, 0, 40]])
    imagined = np.array([[0, 30, 9, 300], [3, 2, 60, 120]])
    sampler = counting(trained.tolist(), imagined.tolist())
    scores = sampler.scores("behaviour", Windows(num_envs=2, steps=4, length=1))
    scaled = imagined / (BATCHES["behaviour"] / BATCHES["world"])
    literal = (trained - 1.0 * scaled - 1.0 * np.maximum(0, trained - scaled)) / 10.0
    np.testing.assert_allclose(scores, literal, atol=1e-12)


def test_the_behaviour_is_uniform_where_the_world_trained_at_least_as_often() -> None:
    sampler = counting([[5, 1, 9]], [[15, 3, 0]])
    p = probabilities(sampler.scores("behaviour", Windows(1, 3, 1)).ravel())
    np.testing.assert_allclose(p, 1 / 3)


def test_each_temperature_applies_to_its_own_learner() -> None:
    sampler = dynamic(temperature=1.0, behaviour_temperature=100.0)
    sampler.restore({"world": np.array([[0, 2]]), "behaviour": np.array([[6, 6]])})
    windows = Windows(1, 2, 1)
    assert sampler.scores("world", windows).tolist() == [[0.0, -2.0]]
    assert sampler.scores("behaviour", windows).tolist() == [[-0.02, 0.0]]


def test_huge_counts_neither_overflow_nor_exclude_windows() -> None:
    many = 2_000_000
    sampler = counting([[many, many, many + 10]], [[0, 0, 0]])
    p = probabilities(sampler.scores("world", Windows(1, 3, 1)).ravel())
    weights = np.array([1, 1, np.exp(-1.0)])
    np.testing.assert_allclose(p, weights / weights.sum())
    starts = sampler.sample("world", Windows(1, 3, 1), 30, np.random.default_rng(0))
    assert set(starts[:, 1].tolist()) == {0, 1, 2}


def test_each_learner_counts_its_own_samples() -> None:
    sampler, rng = dynamic(), np.random.default_rng(0)
    expected = {name: np.zeros((2, 12), np.int64) for name in BATCHES}
    for steps, (learner, length, batch) in itertools.product(
        (8, 12), (("world", 5, 3), ("behaviour", 2, 40))
    ):
        windows = Windows(2, steps, length)
        for env, time in sampler.sample(learner, windows, batch, rng):
            expected[learner][env, time] += 1
    for learner, counts in expected.items():
        np.testing.assert_array_equal(sampler.counts(learner, Windows(2, 12, 1)), counts)


def test_a_batch_has_no_window_twice_if_there_are_enough() -> None:
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
    # Uniform sampling would leave the new half at 20 against 60 each.
    assert counts[20:].mean() > 0.7 * counts[:20].mean()


def test_restored_counts_give_the_same_samples() -> None:
    sampler, rng = dynamic(), np.random.default_rng(0)
    for steps in (10, 20):
        for learner, batch in BATCHES.items():
            sampler.sample(learner, Windows(2, steps, 3), batch, rng)
    state = sampler.state()
    twin = dynamic()
    twin.restore(state)
    for seed, learner in itertools.product(range(5), BATCHES):
        windows = Windows(2, 20 + seed, 3)
        samples = [
            s.sample(learner, windows, 4, np.random.default_rng(seed)) for s in (sampler, twin)
        ]
        np.testing.assert_array_equal(samples[0], samples[1])
    assert sum(counts.sum() for counts in state.values()) == 2 * sum(BATCHES.values())


def test_an_unknown_learner_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="did you mean 'world'"):
        dynamic().sample("wrold", Windows(1, 3, 1), 1, np.random.default_rng(0))


def test_dynamic_frequency_needs_a_learner_called_world() -> None:
    with pytest.raises(UserError, match="'world'"):
        DynamicFrequency.Config().build(batches={"behaviour": 4})


def latest() -> Latest:
    return Latest.Config().build(batches={"behaviour": 3})


@pytest.mark.parametrize(("steps", "length"), [(9, 4), (4, 4), (9, 1)])
def test_latest_returns_one_window_per_environment_that_ends_with_its_last_step(
    steps: int, length: int
) -> None:
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    starts = latest().sample("behaviour", Windows(3, steps, length), 3, rng)
    assert starts.tolist() == [[env, steps - length] for env in range(3)]
    assert rng.bit_generator.state == before


@pytest.mark.parametrize("batch", [2, 4])
def test_the_batch_of_latest_must_equal_the_number_of_environments(batch: int) -> None:
    with pytest.raises(UserError, match=rf"learning\.behaviour\.batch={batch} .* choose 3"):
        latest().sample("behaviour", Windows(3, 9, 4), batch, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("old", "new"),
    list(itertools.permutations(components(sampling), 2)),
    ids=lambda kind: kind.__name__,
)
def test_a_sampler_is_chosen_by_name(old: Any, new: Any) -> None:
    recipe = variant(load("step-vq-m", "nano").recipe, {"sampler": old.Config()})
    chosen = override(recipe, [f"sampler={snake_case(new.__name__)}"])
    assert isinstance(chosen.sampler, new.Config)
