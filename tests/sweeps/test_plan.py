"""The plan of a sweep: seeds, grids, names, and what a run folder needs next."""

import json
from pathlib import Path

import pytest

from tokenworlds.core.errors import UserError
from tokenworlds.sweeps.plan import (
    Job,
    check_names,
    folder_name,
    parse_grid,
    parse_seeds,
    read_plan,
    without_steps,
    write_plan,
)


@pytest.mark.parametrize(
    ("text", "seeds"), [("0-4", [0, 1, 2, 3, 4]), ("7", [7]), ("0-1, 5,1", [0, 1, 5])]
)
def test_seeds_are_numbers_and_ranges(text: str, seeds: list[int]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "4-0", "a", "0-999999999", "-1"])
def test_other_seeds_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="--seeds takes numbers and ranges such as 0-4,7"):
        parse_seeds(text)


def test_a_grid_has_all_combinations_and_keeps_lists_whole() -> None:
    assert parse_grid(["a.b=1,2", "c=[3,4],[5]"]) == [
        ("a.b=1", "c=[3,4]"),
        ("a.b=1", "c=[5]"),
        ("a.b=2", "c=[3,4]"),
        ("a.b=2", "c=[5]"),
    ]
    assert parse_grid([]) == [()]
    with pytest.raises(UserError, match="--grid takes PATH=VALUE"):
        parse_grid(["a.b"])


def test_folders_are_named_by_what_differs() -> None:
    assert folder_name("cb-t", "atari:Pong", ("world.tokenizer.codes=64",), 3) == (
        "cb-t-atari-Pong-codes=64-s3"
    )
    assert folder_name("mine.py:my_agent", "catch", (), 0) == "my-agent-catch-s0"
    jobs = [Job(name="a", command="x"), Job(name="a", command="y")]
    with pytest.raises(UserError, match="would share the folder a"):
        check_names(jobs)


def test_a_plan_survives_on_disk_and_names_no_other_folder(tmp_path: Path) -> None:
    write_plan(tmp_path, [Job(name="a", command="tokenworlds train")])
    assert read_plan(tmp_path) == [Job(name="a", command="tokenworlds train")]
    (tmp_path / "sweep.json").write_text(json.dumps({"jobs": [{"name": "../b", "command": ""}]}))
    with pytest.raises(UserError, match="it describes no sweep"):
        read_plan(tmp_path)
    with pytest.raises(UserError, match="holds no sweep"):
        read_plan(tmp_path / "elsewhere")


def test_commands_are_compared_without_their_steps() -> None:
    assert without_steps("train a --steps 5 --seed 1") == ["train", "a", "--seed", "1"]
    assert without_steps("train a") == ["train", "a"]
