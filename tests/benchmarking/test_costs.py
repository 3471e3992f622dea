"""What a step costs follows from the schedule of the whole run."""

import pytest
from measured_accounts import figure

from tokenworlds.benchmarking.codings import frames_coded
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
        "num_envs": 1,
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


# Three epochs of 10 steps and one without; the world is shown 3 x 4 frames at a time, the behaviour
# 2 x 2.
EPOCHS = {
    "steps": 30,
    "num_envs": 2,
    "schedule.steps": 10,
    "schedule.first_steps": 0,
    "schedule.first_updates": {},
    "schedule.final_epochs": 1,
    "schedule.updates": {"tokenizer": 1, "world": 2, "behaviour": 4},
    "schedule.start_after": {"behaviour": 1},
    "learning.world.batch": 3,
    "learning.world.length": 4,
    "learning.behaviour.batch": 2,
    "learning.behaviour.length": 2,
}


@pytest.mark.parametrize(
    ("name", "changes", "frames"),
    [
        # 24 are shown in the first epoch, of 10 steps, and 40 in each of the others.
        ("iris", {}, 10 + 20 + 30 + 30),
        # A change takes two frames: 18 are shown, then 26.
        ("delta-iris", {}, 10 + 20 + 26 + 26),
        ("iris", {"schedule.updates": {"tokenizer": 0, "world": 2, "behaviour": 4}}, 30),
        ("iris", {"schedule.updates": {"tokenizer": 1, "world": 1, "behaviour": 0}}, 10 + 3 * 12),
    ],
)
def test_a_frame_is_coded_once_between_two_updates_of_its_tokenizer(
    name: str, changes: dict[str, object], frames: int
) -> None:
    recipe = variant(load(name, "nano").recipe, {**EPOCHS, **changes})
    assert frames_coded(recipe) == frames
    taken = [figure("world", 2.0), figure("codes", 1.0, "codes")]
    cost = cost_of(recipe, taken)
    # A figure codes 16 x 64 frames.
    assert cost.updates["codes"] == pytest.approx(frames / 1024 / 30)
    assert cost.total_seconds == pytest.approx(cost.seconds["world"] + frames / 1024 / 30)


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
