"""The page docs/own_tokenizer.md: its file and its commands."""

import re
import shlex
from pathlib import Path

import pytest

from tokenworlds.cli import main
from tokenworlds.runs.events import read_metrics
from tokenworlds.training import session

PAGE = (Path(__file__).parents[2] / "docs" / "own_tokenizer.md").read_text()
TINY = (
    "num_envs=2",
    "behaviour.horizon=2",
    "learning.world.batch=2",
    "learning.world.length=4",
    "learning.behaviour.batch=4",
    "schedule.warm_up=16",
    'schedule.updates={"world":0.25,"behaviour":0.25}',
    "evaluation.every=0",
    "evaluation.final_episodes=1",
    "housekeeping.log_every=8",
)
"""A run of seconds instead of minutes."""
LIMITS = {
    "train": ["--steps", "36", "--threads", "1", "--set", *TINY],
    "evaluate": ["--episodes", "2"],
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def test_the_page_makes_a_tokenizer_that_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "add_report", lambda *run: run[-1])
    (code,) = blocks("python")
    Path("my_tokenizer.py").write_text(code)
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    for line in lines:
        program, command, *words = shlex.split(line)
        assert program == "tokenworlds"
        assert main([command, *words, *LIMITS.get(command, [])]) == 0, line
    for run in ("fsq", "fsq-of-the-package", "lfq", "residual-vq"):
        last = read_metrics(tmp_path / "runs" / run)[0][-1]
        assert last["world/loss/reconstruction"] > 0, run
    assert "world/loss/certainty" in read_metrics(tmp_path / "runs" / "lfq")[0][-1]
    assert Path("report.html").is_file()
