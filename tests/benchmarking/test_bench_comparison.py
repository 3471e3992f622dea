"""Ratios say how many times as fast each piece is now."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from measured_accounts import CIRCUMSTANCES, account

from tokenworlds.benchmarking.comparison import (
    OTHER_FRACTION,
    OTHER_WORK,
    Change,
    compare,
    differences,
    read_old,
)
from tokenworlds.benchmarking.documents import FORMAT, to_document
from tokenworlds.core.errors import UserError

SLOW = account("iris", {"tokenizer": 2.0, "world": 4.0})
FAST = account("iris", {"tokenizer": 1.0, "world": 4.0})
OTHER = account("storm", {"world": 1.0})


def document(*accounts: Any, **changes: Any) -> dict[str, Any]:
    return to_document(replace(CIRCUMSTANCES, **changes), accounts)


def test_a_document_is_json_that_tells_all_of_it() -> None:
    made = document(FAST, OTHER)
    assert json.loads(json.dumps(made)) == made
    assert made["format"] == FORMAT
    assert (made["env"], made["threads"], made["protocol"]) == ("toy:catch", 2, "toy")
    iris, storm = made["recipes"]
    assert [figure["name"] for figure in iris["figures"]] == ["tokenizer", "world"]
    assert iris["figures"][0]["seconds"] == asdict(FAST.figures[0].seconds)
    assert iris["per_step"]["cal"] == {"tokenizer": 2.0, "world": 8.0}
    assert (iris["speed_against_iris"], storm["speed_against_iris"]) == (1.0, 5.0)
    assert iris["per_step"]["without_autoencoder"] == {"cal": 8.0, "seconds": 2.0}
    rests = iris["speed_without_autoencoder"], storm["speed_without_autoencoder"]
    assert rests == (1.0, 4.0)
    alone = document(OTHER)["recipes"][0]
    assert (alone["speed_against_iris"], alone["speed_without_autoencoder"]) == (None, None)


def test_figures_in_both_are_compared_and_the_whole_step_with_them() -> None:
    changes = compare(document(SLOW), document(OTHER, FAST))
    assert changes == [
        Change("iris", "paper", "tokenizer", 8.0, 4.0, 2.0),
        Change("iris", "paper", "world", 16.0, 16.0, 1.0),
        Change("iris", "paper", "all of a step", 12.0, 10.0, 1.2),
    ]


def test_another_size_is_another_recipe() -> None:
    assert compare(document(SLOW), document(replace(FAST, size="nano"))) == []


def test_what_is_not_the_same_work_is_remarked_on() -> None:
    longer = replace(FAST.figures[0], steps=128)
    less = replace(FAST.figures[1], rows=4)
    often = replace(FAST.per_step, updates={"tokenizer": 1.0, "world": 1.0})
    other = replace(FAST, figures=[longer, less], per_step=often)
    changes = compare(document(SLOW), document(other))
    assert [change.remark for change in changes] == [OTHER_WORK, OTHER_FRACTION, OTHER_WORK]
    part = replace(FAST, figures=[FAST.figures[0], less])
    remarks = [change.remark for change in compare(document(SLOW), document(part))]
    assert remarks == ["", OTHER_FRACTION, OTHER_FRACTION]


def test_circumstances_that_are_others_are_named() -> None:
    machine = {"processor": "slide rule", "packages": {"torch": "2.13.0"}}
    now = document(FAST, threads=1, machine=machine)
    assert differences(document(FAST), now) == [
        "threads was 2, is 1",
        "the processor was abacus, is slide rule",
    ]
    assert differences(now, now) == []


def test_an_old_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document(SLOW)))
    assert read_old(path) == document(SLOW)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is no JSON document"),
        ("[]", "is not what 'tokenworlds bench --json' prints"),
        ('{"format": "tokenworlds-bench-1"}', "is of an older format .tokenworlds-bench-1., whose"),
        ('{"format": "tokenworlds-bench-2"}', "is of an older format .tokenworlds-bench-2., whose"),
        ('{"format": "other"}', "is not what 'tokenworlds bench --json' prints"),
        (json.dumps({"format": FORMAT}), "is damaged: KeyError: 'recipes'"),
        (json.dumps({"format": FORMAT, "recipes": [1]}), "is damaged: TypeError"),
        (json.dumps({"format": FORMAT, "recipes": []}), "is damaged: KeyError"),
    ],
)
def test_a_document_that_cannot_be_compared_with_is_named(
    content: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "old.json"
    path.write_text(content)
    with pytest.raises(UserError, match=said):
        read_old(path)


def test_a_document_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*old.json: no such file"):
        read_old(tmp_path / "old.json")
