"""`tokenworlds literature`: what it prints, in terminals of all widths and as data."""

import csv
import io
import json

import pytest
from tiny_runs import sentence

from tokenworlds.cli import main

ERRORS = [
    (["atari10k"], "unknown benchmark 'atari10k'", "did you mean 'atari100k'?"),
    (["atari100k", "--game", "Pnog"], "unknown game 'Pnog'", "did you mean 'Pong'?"),
    (["atari100k", "--agent", "irsi"], "unknown agent 'irsi'", "did you mean 'iris'?"),
    (["atari100k", "--references", "exat"], "unknown reference set 'exat'", "'exact'?"),
    (["--game", "Pong"], "--game needs a benchmark", ""),
    (["atari100k", "--json", "--csv"], "--json and --csv exclude each other", ""),
]


@pytest.mark.parametrize(
    ("words", "expected", "hint"), ERRORS, ids=[" ".join(words) for words, _, _ in ERRORS]
)
def test_a_wrong_name_gets_one_sentence_with_the_nearest_match(
    words: list[str], expected: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["literature", *words]) == 2
    captured = capsys.readouterr()
    text = sentence(captured.err)
    assert expected in text
    assert hint in text
    assert captured.out == ""


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["literature", *words]) == 0
    return capsys.readouterr().out


def test_without_a_benchmark_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys)
    assert {"atari100k", "crafter-1m", "dmc-vision"} <= set(out.split())
    entries = json.loads(printed(capsys, "--json"))
    assert {entry["benchmark"]: entry["tasks"] for entry in entries}["dmc-vision"] == 20


def test_the_two_iqms_have_columns_of_their_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    out = printed(capsys, "atari100k", "--agent", "iris")
    (row,) = [line for line in out.splitlines() if line.split()[:1] == ["recomputed"]]
    assert row.split()[1:5] == ["1.046", "0.289", "0.501", "0.543"]
    text = " ".join(out.split())
    assert "IQM runs: over all runs" in text
    assert "IQM tasks: over the means" in text
    assert "95 % bootstrap intervals" in text


def test_every_source_has_a_footnote(capsys: pytest.CaptureFixture[str]) -> None:
    out = " ".join(printed(capsys, "atari100k", "--game", "pong", "--agent", "storm").split())
    assert "[1] STORM, table of scores" in out
    assert "GIT-STORM, Table 5. claimed. 5 seeds, 20 episodes, 400,000 frames, sticky" in out
    assert "STORM: reproduced" in out
    assert "IRIS: reported" not in out


def test_an_agent_is_found_by_its_name_in_print(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "atari100k", "--agent", "Δ-IRIS") == printed(
        capsys, "atari100k", "--agent", "delta-iris"
    )


@pytest.mark.parametrize("words", [(), ("--game", "Hero"), ("--agent", "storm")])
@pytest.mark.parametrize("width", [50, 80, 160])
def test_tables_fit_the_terminal_and_keep_numbers_whole(
    width: int,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    out = printed(capsys, "atari100k", *words)
    assert max(map(len, out.splitlines())) <= width
    assert "…" not in out
    assert any(word in out.split() for word in ("2.428", "13,354.2", "66,776.0"))


def test_json_names_the_source_of_every_number(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(printed(capsys, "crafter-1m", "--json"))
    assert {score["table"] for score in document["scores"]} == set(document["tables"])
    returns = {s["agent"]: s["value"] for s in document["scores"] if s["metric"] == "return"}
    assert returns["delta-iris"] == 7.7
    assert document["tables"]["delta-iris-1-1m"]["protocol"]["episodes"] == 256
    assert document["tables"]["delta-iris-1-1m"]["protocol"]["sticky_actions"] is None


def test_csv_has_a_line_for_each_score_and_aggregate(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "atari100k", "--csv"))))
    pong = [row for row in rows if row["table"] == "iris-runs" and row["task"] == "Pong"]
    assert pong[0]["runs"] == "19.3 18.5 16.6 6.2 12.4"
    claimed = [row for row in rows if row["table"] == "storm-claims"]
    assert {(row["metric"], row["value"]) for row in claimed} == {
        ("mean", "1.267"),
        ("median", "0.584"),
    }


def test_other_benchmarks_show_their_own_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Crafter score" in printed(capsys, "crafter-1m")
    out = printed(capsys, "dmc-vision", "--agent", "git-storm")
    assert "walker-walk" in out
    assert "perplexity" in out
    assert "0.000185" in printed(capsys, "world-model")
