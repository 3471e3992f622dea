"""`tokenworlds report` and `tokenworlds runs`: what they print, write and refuse."""

import csv
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_runs import Invented, write_run, write_seeds

from tokenworlds.cli import main, parse
from tokenworlds.commands.choices import choose_run
from tokenworlds.evaluation.exchange import read_scores

Refused = Callable[..., str]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Run a command that must fail; returns its sentence."""

    def run(*words: str) -> str:
        assert main(list(words)) == 2
        error = capsys.readouterr().err
        assert error.startswith("tokenworlds: ")
        assert error.count("\n") == 1, error
        assert not list(Path().glob("report.*"))
        return error.removeprefix("tokenworlds: ").strip()

    return run


def test_the_page_and_both_tables_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    write_seeds(Path("runs"), (0, 1))
    assert main(["report", "runs", "--out", "mine.html"]) == 0
    assert capsys.readouterr().out == "page    mine.html\ntables  mine.md, mine.csv\n"
    assert Path("mine.html").read_text().startswith("<!doctype html>")
    assert "| catch |" in Path("mine.md").read_text()
    with Path("mine.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["seed"] for row in rows] == ["0", "1"]
    assert rows[0]["command"] == "tokenworlds train step-vq-m --env catch --size nano --seed 0"
    assert rows[0]["parameters"] == "123456"


def test_missing_runs_are_named(refused: Refused) -> None:
    assert refused("report").startswith("name the runs to report")
    assert refused("report", "nowhere").startswith("'nowhere' is no run, no folder of runs")
    Path("empty").mkdir()
    assert refused("report", "empty") == "'empty' holds no runs"


def test_output_must_be_a_page_in_a_folder(refused: Refused) -> None:
    write_seeds(Path("runs"), (0,))
    assert "its name must end in .html" in refused("report", "runs", "--out", "report.pdf")
    assert "there is no folder" in refused("report", "runs", "--out", "no/report.html")
    inside = "runs/step-vq-m-catch-s0/report.html"
    assert "is inside a run folder" in refused("report", "runs", "--out", inside)
    assert "did you mean 'exact'" in refused("report", "runs", "--references", "exat")
    assert "did you mean 'diamond'" in refused("report", "runs", "--published", "diamnd")
    assert "must end in .json" in refused("report", "runs", "--export", "scores.csv")


def test_a_damaged_run_is_refused_by_name_and_left_out_of_a_folder(
    refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = write_seeds(Path("runs"), (0, 1))
    (first / "evaluation.json").write_text('{"returns": [NaN]}')
    assert "evaluation.json is damaged" in refused("report", str(first), str(second))
    assert main(["report", "runs"]) == 0
    assert f"note: {first} is left out: " in capsys.readouterr().err
    assert f"{first} is left out" in Path("report.html").read_text()
    (second / "run.json").write_text("")
    for name in ("report.html", "report.md", "report.csv"):
        Path(name).unlink()
    assert refused("report", "runs").startswith("there is no run to report")


def test_protocols_are_not_mixed_unless_told_to(refused: Refused) -> None:
    write_run(Path("a"), Invented(env="atari:Pong", protocol="atari100k"))
    write_run(Path("b"), Invented(env="atari:Pong", protocol="atari100k-sticky", recipe="storm"))
    error = refused("report", "a", "b")
    assert "their protocols differ: atari100k (a), atari100k-sticky (b)" in error
    assert "--mix-protocols" in error
    assert main(["report", "a", "b", "--mix-protocols"]) == 0
    page = Path("report.html").read_text()
    assert "These scores are not comparable: their protocols differ" in page


def test_training_lengths_are_not_mixed_unless_told_to(refused: Refused) -> None:
    write_run(Path("a"), Invented(steps=1000))
    write_run(Path("b"), Invented(steps=2000, recipe="storm"))
    assert "their agent steps on catch differ: 1,000 (a), 2,000 (b)" in refused("report", "a", "b")
    assert main(["report", "a", "b", "--mix-protocols"]) == 0


def test_a_file_of_scores_states_no_protocol(refused: Refused) -> None:
    write_seeds(Path("runs"), (0, 1), env="atari:Pong", start=-20.7, end=10.0)
    Path("other.json").write_text('{"Pong": [1.0, 2.0, 3.0]}')
    assert "not stated (other.json and 2 more)" in refused("report", "runs", "other.json")
    assert main(["report", "runs", "other.json", "--mix-protocols"]) == 0
    assert main(["report", "other.json"]) == 0
    assert "Files of scores state no protocol" in Path("report.html").read_text()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"Pong": [NaN]}', "NaN is not JSON"),
        ('{"Pong": []}', "Pong"),
        ('{"Pong": ["high"]}', "Pong"),
        ("[]", "must hold an object"),
        ("", "is not JSON"),
    ],
)
def test_bad_files_of_scores_are_refused(refused: Refused, content: str, reason: str) -> None:
    Path("scores.json").write_text(content)
    error = refused("report", "scores.json")
    assert "scores.json" in error
    assert reason in error


def test_crafter_stats_are_one_run(refused: Refused) -> None:
    Path("bad.jsonl").write_text("{}")
    assert "bad.jsonl is damaged: line 1 is no episode" in refused("report", "bad.jsonl")
    Path("theirs").mkdir()
    line = '{"length": 100, "reward": %.1f, "achievement_collect_wood": %d}\n'
    Path("theirs/stats.jsonl").write_text(line % (3.0, 1) + line % (1.0, 0))
    assert main(["report", "theirs/stats.jsonl"]) == 0
    table = Path("report.md").read_text()
    assert "| crafter | 2.00 (one seed) |" in table
    assert "| collect_wood | 50.0 |" in table


def test_scores_are_exported_for_other_tools() -> None:
    write_seeds(Path("runs"), (0, 1), end=0.5, spread=0.0)
    write_seeds(Path("runs"), (0,), end=0.25, spread=0.0, recipe="storm")
    assert main(["report", "runs", "--export", "scores.json"]) == 0
    assert read_scores(Path("scores.json")) == {
        "step-vq-m (nano)": {"catch": [0.5, 0.5]},
        "storm (nano)": {"catch": [0.25]},
    }


def test_a_stored_command_makes_the_same_run() -> None:
    words = ["train", "storm", "--env", "atari:Pong", "--seed", "3", "--steps", "50", "--threads"]
    words += ["2", "--set", "num_envs=2", "world.sequence.layers=1", "--set", "grey=true"]
    asked = parse([*words, "--compile", "--run", "elsewhere"])
    again = parse(shlex.split(asked.command())[1:])
    assert again.command() == asked.command()
    assert choose_run(replace(again, compile=False)) == choose_run(replace(asked, compile=False))


def test_one_seed_and_unfinished_runs_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    write_run(Path("runs/a"), Invented())
    write_run(Path("runs/b"), Invented(seed=1, reached=500))
    assert main(["report", "runs"]) == 0
    page, notes = Path("report.html").read_text(), capsys.readouterr().err
    for text in (page, notes, Path("report.md").read_text()):
        assert "one seed" in text
        assert "One run is not finished" in text


def test_runs_that_are_not_finished_have_no_aggregate() -> None:
    write_run(Path("runs/a"), Invented(reached=500))
    assert main(["report", "runs"]) == 0
    page = Path("report.html").read_text()
    assert "No run is finished" in page
    assert "at step 454, not finished" in page
    assert "Aggregates" not in page


def test_runs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == 2
    assert "'runs' is not a folder" in capsys.readouterr().err
    Path("runs").mkdir()
    assert main(["runs"]) == 0
    assert capsys.readouterr().out == "no runs in runs\n"
    write_run(Path("runs/done"), Invented(end=0.5, spread=0.0))
    write_run(Path("runs/stopped"), Invented(reached=500))
    broken = write_run(Path("runs/wrong"), Invented())
    (broken / "run.json").write_text("{")
    assert main(["runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:5] == ["done", "finished", "1,000", "of", "1,000"]
    assert "0.5 (final)" in lines[1]
    assert lines[2].split()[:5] == ["stopped", "stopped", "500", "of", "1,000"]
    assert lines[3].split()[:2] == ["wrong", "damaged"]
    assert "run.json is damaged" in lines[4]
    assert main(["runs", "runs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [run["state"] for run in listed] == ["finished", "stopped", "damaged"]
    assert (listed[0]["score"], listed[0]["score_kind"]) == (0.5, "final")


def test_both_commands_start_without_torch() -> None:
    write_seeds(Path("runs"), (0, 1), env="atari:Pong")
    code = (
        "import sys; from tokenworlds.cli import main\n"
        "assert main(sys.argv[1:]) == 0\n"
        "assert 'torch' not in sys.modules\n"
    )
    for words in (["runs"], ["report", "runs"]):
        subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)
