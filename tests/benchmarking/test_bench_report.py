"""The cost of an environment step, the JSON document, and comparisons with an earlier one."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from bench_examples import ENVIRONMENT, measurement, report

from tokenworlds.benchmarking.report import (
    FORMAT,
    OTHER_FRACTION,
    OTHER_WORK,
    Change,
    compare,
    environment_differences,
    frames_encoded,
    read_document,
    speedups,
    step_cost,
    to_document,
    updates_per_step,
)
from tokenworlds.core.config import variant
from tokenworlds.core.errors import UserError
from tokenworlds.recipes.catalogue import load

# From the papers' numbers: epochs of 200 steps, 100 of them after the last step; a warm-up of 1032
# steps.
BY_HAND = {
    "iris": {"tokenizer": 595 * 200 / 1e5, "world": 575 * 200 / 1e5, "behaviour": 550 * 200 / 1e5},
    "step-vq-m": {"world": 98_968 / 1e5, "behaviour": 98_968 / 1e5},
}


@pytest.mark.parametrize("name", BY_HAND)
def test_updates_are_averaged_over_all_steps(name: str) -> None:
    assert updates_per_step(load(name, "paper").recipe) == pytest.approx(BY_HAND[name])


def test_iterations_have_the_update_counts_of_the_released_code() -> None:
    updates = updates_per_step(load("swm", "paper").recipe)
    assert updates == pytest.approx(
        {"tokenizer": 1.032, "world": 2.355, "behaviour": 0.186}, abs=5e-4
    )


def test_a_changed_schedule_changes_the_updates() -> None:
    changes = {
        "steps": 1000,
        "num_envs": 1,
        "schedule.warm_up": 200,
        "schedule.updates": {"world": 0.5, "behaviour": 2.0},
    }
    recipe = variant(load("step-vq-m", "nano").recipe, changes)
    assert updates_per_step(recipe) == {"world": 0.4, "behaviour": 1.6}


def test_a_step_costs_the_sum_of_its_updates() -> None:
    recipe = load("iris", "paper").recipe
    taken = [
        measurement("tokenizer", 1.0),
        measurement("world", 2.0),
        measurement("behaviour", 4.0),
    ]
    cost = step_cost(recipe, [*taken, measurement("dream", 100.0, "dream")])
    assert cost.seconds == pytest.approx({"tokenizer": 1.19, "world": 2.3, "behaviour": 4.4})
    assert cost.total_seconds == pytest.approx(7.89)
    assert cost.cal == pytest.approx({"tokenizer": 4.76, "world": 9.2, "behaviour": 17.6})
    assert cost.total_cal == pytest.approx(31.56)


# Three epochs of 10 steps and one without; the world reads 3 x 4 frames, the behaviour 2 x 2.
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
        # The first epoch, of 10 steps, reads 24 frames and the others 40.
        ("iris", {}, 10 + 20 + 30 + 30),
        # Tokens depend on two frames: 18 are read, then 26.
        ("delta-iris", {}, 10 + 20 + 26 + 26),
        ("iris", {"schedule.updates": {"tokenizer": 0, "world": 2, "behaviour": 4}}, 30),
        ("iris", {"schedule.updates": {"tokenizer": 1, "world": 1, "behaviour": 0}}, 10 + 3 * 12),
    ],
)
def test_a_frame_is_encoded_once_between_two_tokenizer_updates(
    name: str, changes: dict[str, object], frames: int
) -> None:
    recipe = variant(load(name, "nano").recipe, {**EPOCHS, **changes})
    assert frames_encoded(recipe) == frames
    taken = [measurement("world", 2.0), measurement("encoding", 1.0, "encoding")]
    cost = step_cost(recipe, taken)
    # A measurement encodes 16 x 64 frames.
    assert cost.updates["encoding"] == pytest.approx(frames / 1024 / 30)
    assert cost.total_seconds == pytest.approx(cost.seconds["world"] + frames / 1024 / 30)


def test_the_updates_of_a_separate_tokenizer_are_excluded() -> None:
    recipe = load("iris", "paper").recipe
    taken = [
        measurement("tokenizer", 1.0),
        measurement("world", 2.0),
        measurement("behaviour", 4.0),
    ]
    cost = step_cost(recipe, taken)
    assert cost.cal_without_autoencoder == pytest.approx(9.2 + 17.6)
    assert cost.seconds_without_autoencoder == pytest.approx(2.3 + 4.4)


def test_the_part_of_a_joint_tokenizer_is_excluded() -> None:
    recipe = load("step-vq-iris", "paper").recipe
    taken = [
        measurement("world", 2.0),
        measurement("autoencoder", 1.5, "autoencoder", learner="world"),
    ]
    cost = step_cost(recipe, [*taken, measurement("behaviour", 4.0)])
    assert cost.total_seconds == pytest.approx(0.98968 * 6.0)
    assert cost.seconds_without_autoencoder == pytest.approx(0.98968 * 4.5)
    assert cost.cal_without_autoencoder == pytest.approx(4 * 0.98968 * 4.5)
    assert set(cost.cal) == {"world", "behaviour"}


def test_the_remainder_is_the_total_without_a_tokenizer_and_never_negative() -> None:
    ppo = step_cost(load("ppo", "paper").recipe, [measurement("behaviour", 4.0)])
    assert ppo.cal_without_autoencoder == ppo.total_cal
    noisy = [
        measurement("world", 1.0),
        measurement("autoencoder", 1.1, "autoencoder", learner="world"),
    ]
    assert step_cost(load("step-vq-m", "paper").recipe, noisy).cal_without_autoencoder == 0.0


def test_speedups_refer_to_a_recipe_if_it_was_measured() -> None:
    names, costs = ["a", "iris", "b"], [1.0, 8.0, 16.0]
    assert speedups(names, costs) == pytest.approx([8.0, 1.0, 0.5])
    assert speedups(names[:1], costs[:1]) == [None]


SLOW = report("iris", {"tokenizer": 2.0, "world": 4.0})
FAST = report("iris", {"tokenizer": 1.0, "world": 4.0})
OTHER = report("storm", {"world": 1.0})


def document(*reports: Any, **changes: Any) -> dict[str, Any]:
    return to_document(replace(ENVIRONMENT, **changes), reports)


def test_a_document_is_json_with_all_reports() -> None:
    made = document(FAST, OTHER)
    assert json.loads(json.dumps(made)) == made
    assert made["format"] == FORMAT
    assert (made["env"], made["threads"], made["protocol"]) == ("toy:catch", 2, "toy")
    iris, storm = made["recipes"]
    assert [each["name"] for each in iris["measurements"]] == ["tokenizer", "world"]
    assert iris["measurements"][0]["seconds"] == asdict(FAST.measurements[0].seconds)
    assert iris["per_step"]["cal"] == {"tokenizer": 2.0, "world": 8.0}
    assert (iris["speedup_over_iris"], storm["speedup_over_iris"]) == (1.0, 5.0)
    assert iris["per_step"]["cal_without_autoencoder"] == 8.0
    assert iris["per_step"]["seconds_without_autoencoder"] == 2.0
    rests = iris["speedup_without_autoencoder"], storm["speedup_without_autoencoder"]
    assert rests == (1.0, 4.0)
    alone = document(OTHER)["recipes"][0]
    assert (alone["speedup_over_iris"], alone["speedup_without_autoencoder"]) == (None, None)


def test_measurements_in_both_documents_are_compared_and_the_total() -> None:
    changes = compare(document(SLOW), document(OTHER, FAST))
    assert changes == [
        Change("iris", "paper", "tokenizer", 8.0, 4.0, 2.0),
        Change("iris", "paper", "world", 16.0, 16.0, 1.0),
        Change("iris", "paper", "total per step", 12.0, 10.0, 1.2),
    ]


def test_another_size_is_another_recipe() -> None:
    assert compare(document(SLOW), document(replace(FAST, size="nano"))) == []


def test_different_work_gets_a_remark() -> None:
    longer = replace(FAST.measurements[0], steps=128)
    less = replace(FAST.measurements[1], rows=4)
    often = replace(FAST.per_step, updates={"tokenizer": 1.0, "world": 1.0})
    other = replace(FAST, measurements=[longer, less], per_step=often)
    changes = compare(document(SLOW), document(other))
    assert [change.remark for change in changes] == [OTHER_WORK, OTHER_FRACTION, OTHER_WORK]
    part = replace(FAST, measurements=[FAST.measurements[0], less])
    remarks = [change.remark for change in compare(document(SLOW), document(part))]
    assert remarks == ["", OTHER_FRACTION, OTHER_FRACTION]


def test_differences_of_the_environment_are_listed() -> None:
    machine = {"processor": "slide rule", "packages": {"torch": "2.13.0"}}
    now = document(FAST, threads=1, machine=machine)
    assert environment_differences(document(FAST), now) == [
        "threads was 2, is 1",
        "processor was abacus, is slide rule",
    ]
    assert environment_differences(now, now) == []


def test_a_document_is_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document(SLOW)))
    assert read_document(path) == document(SLOW)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not a JSON document"),
        ("[]", "is not a document of 'tokenworlds bench --json'"),
        ('{"format": "tokenworlds-bench-1"}', "has the older format tokenworlds-bench-1, which"),
        ('{"format": "tokenworlds-bench-2"}', "has the older format tokenworlds-bench-2, which"),
        ('{"format": "tokenworlds-bench-3"}', "has the older format tokenworlds-bench-3, which"),
        ('{"format": "other"}', "is not a document of 'tokenworlds bench --json'"),
        (json.dumps({"format": FORMAT}), "is damaged: KeyError: 'recipes'"),
        (json.dumps({"format": FORMAT, "recipes": [1]}), "is damaged: TypeError"),
        (json.dumps({"format": FORMAT, "recipes": []}), "is damaged: KeyError"),
    ],
)
def test_an_unusable_document_is_an_error(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_document(path)


def test_a_missing_document_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*old.json: no such file"):
        read_document(tmp_path / "old.json")
