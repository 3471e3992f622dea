"""Reports as lines of text."""

from dataclasses import replace

import pytest
from bench_examples import curve, measurement, point, report

from tokenworlds.benchmarking.report import Change, Target
from tokenworlds.benchmarking.scaling import AXES, AxisStart, Skipped, small_base
from tokenworlds.benchmarking.tables import (
    COLUMNS,
    SCALING_COLUMNS,
    base_line,
    change_lines,
    duration,
    measurement_line,
    number,
    row,
    scaling_lines,
    summary_lines,
)
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.recipes.catalogue import load


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
def test_numbers_have_three_significant_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_times_are_in_seconds_or_milliseconds() -> None:
    assert (duration(12.34), duration(0.01234)) == ("12.3 s", "12.3 ms")


def test_a_measurement_is_aligned_with_its_columns() -> None:
    line = measurement_line(measurement("world", 0.5))
    assert len(line) == len(row("", COLUMNS, COLUMNS))
    values = ["world", "16", "x", "64", "all", "500", "ms", "±10%", "2.00", "3.00", "25%"]
    assert line.split() == [*values, "512", "MiB", "2,048"]


def test_extrapolated_values_are_marked() -> None:
    line = measurement_line(measurement("world", 0.5, rows=4))
    assert {"1/4", "~500", "~2.00", "~512"} <= set(line.split())


def test_a_workload_without_operations_has_no_utilisation() -> None:
    assert " - " in measurement_line(
        replace(measurement("environment", 0.5, "environment"), flops=0.0)
    )


def test_recipes_are_summarised_in_two_blocks() -> None:
    iris = report("iris", {"tokenizer": 2.0, "world": 4.0})
    reports = [iris, report("storm", {"world": 1.0})]
    lines = [line.split() for line in summary_lines(reports)]
    assert lines[1] == ["iris", "(paper)", "12.0", "3.00", "s", "1.00", "x"]
    assert lines[2] == ["storm", "(paper)", "2.00", "500", "ms", "6.00", "x"]
    assert lines[3] == ["without", "the", "autoencoder"]
    assert lines[4] == ["iris", "(paper)", "8.00", "2.00", "s", "1.00", "x"]
    assert lines[5] == ["storm", "(paper)", "2.00", "500", "ms", "4.00", "x"]
    assert len(lines) == 6
    assert list(summary_lines(reports[1:]))[-1].strip().startswith("add iris to the recipes")


def test_changes_have_remarks_and_notes() -> None:
    changes = [Change("iris", "paper", "world", 8.0, 4.0, 2.0, "another day")]
    lines = list(change_lines(changes, ["threads was 2, is 1"], "old.json"))
    assert "against old.json" in lines[0]
    assert lines[1] == "  note: threads was 2, is 1"
    assert lines[2].endswith("8.00      4.00      2.00 x   another day")
    assert "no recipe is in both" in list(change_lines([], [], "old.json"))[-1]


def test_points_and_exponents_are_aligned_with_their_columns() -> None:
    (head,) = scaling_lines(AxisStart(AXES[0], "somewhere"))
    (line,) = scaling_lines(point(4, 0.25))
    assert len(head.strip("\n")) == len(line) == 14 + sum(SCALING_COLUMNS.values())
    values = ["4", "250", "ms", "±10%", "1.00", "3.00", "1", "MiB", "5,000,000", "2,000,000"]
    assert line.split() == values
    lines = list(scaling_lines(curve("batch", 1, 2)))
    assert [len(each) for each in lines] == [len(line)] * 2
    assert lines[1].split() == ["last", "two", *["1.00"] * 5]
    assert list(scaling_lines(curve("batch", 1))) == []


def test_skipped_values_and_missing_axes_have_a_line() -> None:
    (line,) = scaling_lines(Skipped(8, "it is too much"))
    assert line.endswith("skipped: it is too much")
    assert list(scaling_lines(AxisStart(AXES[0], None))) == ["\n  batch: not in this recipe"]


def test_the_base_of_a_recipe_has_a_line() -> None:
    nano = load("step-vq-m", "nano", "catch").recipe
    target = Target("step-vq-m", "nano", nano, EnvSpec("catch", "", 64))
    assert small_base(nano).learning["world"].batch == 4
    expected = "\nstep-vq-m (nano): 4 x 16 for world, 32 x 2 for behaviour, horizon 8"
    assert base_line(target) == expected
