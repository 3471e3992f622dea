"""What a step costs follows from the schedule of the whole run."""

import pytest
from measured_accounts import figure

from tokenworlds.benchmarking.costs import cost_of, speeds_against, updates_per_step
from tokenworlds.core.config import variant
from tokenworlds.recipes.catalogue import load

# By hand from the papers' numbers: epochs of 200 steps, 100 of them after the last step; a
# warm-up of 1032 steps; and for Smaller World Models the counts of its released code.
BY_HAND = {
    "iris": {"tokenizer": 595 * 200 / 1e5, "world": 575 * 200 / 1e5, "behaviour": 550 * 200 / 1e5},
    "step-vq-m": {"world": 98_968 / 1e5, "behaviour": 98_968 / 1e5},
}


@pytest.mark.parametrize("name", BY_HAND)
def test_updates_are_shared_out_among_all_steps(name: str) -> None:
    assert updates_per_step(load(name, "paper").recipe) == pytest.approx(BY_HAND[name])


def test_iterations_cost_what_the_reference_was_seen_to_do() -> None:
    updates = updates_per_step(load("swm", "paper").recipe)
    assert updates == pytest.approx(
        {"tokenizer": 1.032, "world": 2.355, "behaviour": 0.186}, abs=5e-4
    )


def test_a_schedule_of_ones_own_counts_for_what_it_says() -> None:
    changes = {
        "steps": 1000,
        "streams": 1,
        "schedule.warm_up": 200,
        "schedule.updates": {"world": 0.5, "behaviour": 2.0},
    }
    recipe = variant(load("step-vq-m", "nano").recipe, changes)
    assert updates_per_step(recipe) == {"world": 0.4, "behaviour": 1.6}


def test_a_step_costs_the_sum_of_its_updates_and_of_nothing_else() -> None:
    recipe = load("iris", "paper").recipe
    taken = [figure("tokenizer", 1.0), figure("world", 2.0), figure("behaviour", 4.0)]
    cost = cost_of(recipe, [*taken, figure("dream", 100.0, "dream")])
    assert cost.seconds == pytest.approx({"tokenizer": 1.19, "world": 2.3, "behaviour": 4.4})
    assert cost.total_seconds == pytest.approx(7.89)
    assert cost.cal == pytest.approx({"tokenizer": 4.76, "world": 9.2, "behaviour": 17.6})
    assert cost.total_cal == pytest.approx(31.56)


def test_a_tokenizer_that_learns_by_itself_is_left_out_whole() -> None:
    recipe = load("iris", "paper").recipe
    taken = [figure("tokenizer", 1.0), figure("world", 2.0), figure("behaviour", 4.0)]
    rest = cost_of(recipe, taken).without_autoencoder
    assert (rest.cal, rest.seconds) == pytest.approx((9.2 + 17.6, 2.3 + 4.4))


def test_a_tokenizer_that_learns_with_the_rest_is_left_out_by_its_share() -> None:
    recipe = load("step-vq-iris", "paper").recipe
    taken = [figure("world", 2.0), figure("autoencoder", 1.5, "autoencoder")]
    cost = cost_of(recipe, [*taken, figure("behaviour", 4.0)])
    assert cost.total_seconds == pytest.approx(0.98968 * 6.0)
    assert cost.without_autoencoder.seconds == pytest.approx(0.98968 * 4.5)
    assert cost.without_autoencoder.cal == pytest.approx(4 * 0.98968 * 4.5)
    assert set(cost.cal) == {"world", "behaviour"}


def test_without_a_tokenizer_nothing_is_left_out_and_never_more_than_there_is() -> None:
    ppo = cost_of(load("ppo", "paper").recipe, [figure("behaviour", 4.0)])
    assert ppo.without_autoencoder.cal == ppo.total_cal
    noisy = [figure("world", 1.0), figure("autoencoder", 1.1, "autoencoder")]
    assert cost_of(load("step-vq-m", "paper").recipe, noisy).without_autoencoder.cal == 0.0


def test_speeds_are_told_against_the_recipe_of_a_name_if_it_is_there() -> None:
    costs = [("a", 1.0), ("iris", 8.0), ("b", 16.0)]
    assert speeds_against("iris", costs) == pytest.approx([8.0, 1.0, 0.5])
    assert speeds_against("iris", costs[:1]) == [None]
