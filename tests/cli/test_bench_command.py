"""`tokenworlds bench`: tables, documents, charts and traces."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import TINY, sentence

from tokenworlds.benchmarking import scaling
from tokenworlds.benchmarking.meters import ReferenceTask
from tokenworlds.benchmarking.scaling import AXES
from tokenworlds.cli import main
from tokenworlds.commands.bench import Bench
from tokenworlds.commands.show import Show
from tokenworlds.commands.train import Train

NAMES = ["world", "behaviour", "autoencoder", "dream", "acting", "environment"]
WORDS = ["bench", "--env", "catch", "--size", "nano", "--seconds", "0.01", "--threads", "1"]
MEASUREMENT = {
    "name": str,
    "kind": str,
    "learner": str,
    "batch": int,
    "steps": int,
    "rows": int,
    "half_rows": int,
    "fixed_seconds": float,
    "seconds": dict,
    "cal": float,
    "steps_per_second": float,
    "flops": float,
    "utilisation": float,
    "memory": int,
    "memory_growth": int,
    "calibration": dict,
}


@pytest.fixture(autouse=True)
def _short_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference task takes longer than all else."""
    monkeypatch.setattr(ReferenceTask, "convolve", lambda task: task.left.sum())
    monkeypatch.setattr(ReferenceTask, "multiply", lambda task: task.left.sum())


@pytest.fixture
def own(tmp_path: Path) -> str:
    """The name of a tiny recipe."""
    (tmp_path / "my_agents.py").write_text(
        "from tokenworlds.core.overrides import override\n"
        "from tokenworlds.recipes.catalogue import load\n"
        "def mine():\n"
        f"    return override(load('step-vq-m', 'nano').recipe, {TINY!r})\n"
        "iris = mine\n"
    )
    return "my_agents.py:mine"


def measured(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*WORDS, *words, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    document: dict[str, Any] = json.loads(captured.out)
    return document


def test_the_document_has_every_measurement_of_every_recipe(
    own: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = measured([own, "--fraction", "1/2"], capsys)
    assert document["format"] == "tokenworlds-bench-4"
    assert (document["env"], document["threads"]) == ("toy:catch", 1)
    assert document["machine"]["packages"]["torch"]
    (report,) = document["recipes"]
    assert (report["recipe"], report["size"]) == (own, "own")
    assert [each["name"] for each in report["measurements"]] == NAMES
    for each in report["measurements"]:
        assert {name: type(value) for name, value in each.items()} == MEASUREMENT
        assert each["seconds"]["repeats"] >= 3
        assert each["cal"] * each["calibration"]["seconds"] == pytest.approx(
            each["seconds"]["median"]
        )
    scaled = report["measurements"][:4]
    assert [each["rows"] for each in scaled] == [1, 2, 1, 2]
    assert [each["batch"] for each in scaled] == [2, 4, 2, 4]
    assert_steps_add_up(report)


def assert_steps_add_up(report: dict[str, Any]) -> None:
    """A run of 10,000 steps, 16 of which are warm-up, with an update every fourth step."""
    cost = report["per_step"]
    assert cost["updates"] == {"world": 0.2496, "behaviour": 0.2496}
    expected = sum(0.2496 * each["cal"] for each in report["measurements"][:2])
    assert cost["total_cal"] == pytest.approx(expected)
    rest = expected - 0.2496 * report["measurements"][2]["cal"]
    assert cost["cal_without_autoencoder"] == pytest.approx(max(rest, 0.0))
    assert report["speedup_over_iris"] is None


def test_a_table_a_chart_and_a_trace_are_written(
    own: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, own, "--chart", "c.png", "--profile", "t.json"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("toy:catch, 1 thread, 0.01 s for each measurement\n")
    first = [line.split()[0] for line in captured.out.splitlines() if line.strip()]
    assert [word for word in first if word in NAMES] == [*NAMES, "world", "behaviour"]
    assert "\nchart   c.png\n" in captured.out
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")
    events = json.loads(Path("t.json").read_text())["traceEvents"]
    assert {"update of world", "update of behaviour"} <= {event["name"] for event in events}


def test_several_recipes_have_a_trace_each(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [own, "my_agents.py:iris", own, "--profile", "t.json", "--fraction", "1/2"]
    document = measured(words, capsys)
    assert [each["recipe"] for each in document["recipes"]] == words[:2]
    assert sorted(path.name for path in Path().glob("t*.json")) == ["t-iris.json", "t-mine.json"]


def test_an_earlier_document_is_compared(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    old = measured([own, "--fraction", "1/2"], capsys)
    old["recipes"][0]["measurements"][0]["cal"] = 1e6
    Path("old.json").write_text(json.dumps(old))
    assert main([*WORDS, own, "--compare", "old.json", "--fraction", "1/2"]) == 0
    table = capsys.readouterr().out
    assert "against old.json: cal before, cal now, speedup\n" in table
    (line,) = [line for line in table.splitlines() if "(own) world" in line]
    assert "1,000,000" in line
    document = measured([own, "--compare", "old.json", "--fraction", "1"], capsys)
    names = [change["name"] for change in document["comparison"]]
    assert names == [*NAMES, "total per step"]
    assert document["comparison"][0]["before"] == 1e6
    remarks = [change["remark"] for change in document["comparison"]]
    part = "a different fraction was measured"
    assert remarks == [part, part, part, part, "", "", part]


def test_scaling_has_a_table_a_chart_and_a_document(
    own: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shorter = [replace(axis, values=axis.values[:2]) for axis in AXES if axis.name != "resolution"]
    monkeypatch.setattr(scaling, "AXES", shorter)
    monkeypatch.setattr(scaling, "MAX_CAL", float("inf"))
    words = [own, "--scaling"]
    assert main([*WORDS, *words, "--chart", "growth.png"]) == 0
    table = capsys.readouterr().out
    assert table.startswith("toy:catch, 1 thread, 0.01 s for each measurement\n")
    assert [table.count(f"\n  {axis.name} ") for axis in shorter] == [1, 1, 1, 1]
    assert table.count("last two") == 4
    assert table.endswith("\nchart   growth.png\n")
    assert Path("growth.png").read_bytes().startswith(b"\x89PNG")
    document = measured(words, capsys)
    assert document["format"] == "tokenworlds-scaling-2"
    (report,) = document["recipes"]
    assert [curve["axis"] for curve in report["curves"]] == [axis.name for axis in shorter]
    batch = report["curves"][0]
    assert [point["value"] for point in batch["points"]] == [1, 2]
    assert [point["measurement"]["batch"] for point in batch["points"]] == [1, 2]
    assert batch["exponents"]["flops"][0] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["stepvq-m"], "did you mean 'step-vq-m'?"),
        (["--size", "nao"], "did you mean 'nano'?"),
        (["--env", "cathc"], "did you mean 'catch'?"),
        (["--fraction", "3/2"], "--fraction takes auto, or a fraction of the batch such as 1/4"),
        (["--seconds", "0"], "--seconds takes a number above 0, not 0.0"),
        (["--seconds", "soon"], "--seconds"),
        (["--threads", "0"], "takes a whole number of 1 or more"),
        (["--chart", "c.gif"], "cannot write to c.gif: its name must end in .png"),
        (["--profile", "no/t.json"], "cannot write to no/t.json: there is no folder no"),
        (["--scaling", "--compare", "old.json"], "--scaling measures single updates"),
        (["--scaling", "--fraction", "1/4"], "--scaling chooses its own batches"),
        (["--scaling", "--seconds", "-1"], "--seconds takes a number above 0, not -1.0"),
        (["--compare", "old.json"], "cannot read old.json: no such file or directory"),
    ],
)
def test_a_mistake_is_an_error_before_any_measurement(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *words]) == 2
    captured = capsys.readouterr()
    assert message in sentence(captured.err)
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_bench_and_show_default_to_what_train_trains() -> None:
    train, show, bench = Train(), Show(recipe="step-vq-m"), Bench()
    assert (show.size, show.env) == (train.size, train.env)
    assert (bench.size, bench.env) == (train.size, train.env)
