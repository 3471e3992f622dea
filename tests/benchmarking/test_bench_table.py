"""The lines that people read."""

from dataclasses import replace

import pytest
from measured_accounts import account, figure

from tokenworlds.benchmarking.comparison import Change
from tokenworlds.benchmarking.table import (
    COLUMNS,
    change_lines,
    duration,
    figure_line,
    number,
    summary,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (12345.6, "12,346"),
        (123.4, "123"),
        (12.34, "12.3"),
        (1.234, "1.23"),
        (0.1234, "0.123"),
        (0.01234, "0.0123"),
        (0.00001234, "1.2e-05"),
    ],
)
def test_numbers_have_three_digits_that_matter(value: float, text: str) -> None:
    assert number(value) == text


def test_times_are_in_seconds_or_thousandths() -> None:
    assert (duration(12.34), duration(0.01234)) == ("12.3 s", "12.3 ms")


def test_a_figure_stands_under_its_columns() -> None:
    line = figure_line(figure("world", 0.5))
    assert len(line) == len(COLUMNS)
    values = ["world", "16", "x", "64", "all", "500", "ms", "±10%", "2.00", "3.00", "25%"]
    assert line.split() == [*values, "512", "MiB", "2,048"]


def test_what_was_scaled_bears_a_mark() -> None:
    line = figure_line(figure("world", 0.5, rows=4))
    assert {"1/4", "~500", "~2.00", "~512"} <= set(line.split())


def test_work_without_operations_reaches_no_share() -> None:
    assert " - " in figure_line(replace(figure("environment", 0.5, "environment"), flops=0.0))


def test_recipes_stand_side_by_side() -> None:
    iris = account("iris", {"tokenizer": 2.0, "world": 4.0})
    accounts = [iris, account("storm", {"world": 1.0})]
    lines = [line.split() for line in summary(accounts)]
    assert lines[1] == ["iris", "(paper)", "12.0", "3.00", "s", "1.00", "x"]
    assert lines[2] == ["storm", "(paper)", "2.00", "500", "ms", "6.00", "x"]
    assert lines[3] == ["without", "the", "autoencoder"]
    assert lines[4] == ["iris", "(paper)", "8.00", "2.00", "s", "1.00", "x"]
    assert lines[5] == ["storm", "(paper)", "2.00", "500", "ms", "4.00", "x"]
    assert len(lines) == 6
    assert list(summary(accounts[1:]))[-1].strip().startswith("measure iris beside them")


def test_changes_are_told_with_remarks_and_notes() -> None:
    changes = [Change("iris", "paper", "world", 8.0, 4.0, 2.0, "another day")]
    lines = list(change_lines(changes, ["threads was 2, is 1"], "old.json"))
    assert "against old.json" in lines[0]
    assert lines[1] == "  note: threads was 2, is 1"
    assert lines[2].endswith("8.00      4.00      2.00 x   another day")
    assert "no recipe is in both" in list(change_lines([], [], "old.json"))[-1]
