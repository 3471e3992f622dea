"""The script at the top of README.md runs as it is written, with fewer steps and smaller parts."""

import re
import runpy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from api_runs import TINY

import tokenworlds as tw
from tokenworlds.evaluation import processes
from tokenworlds.training import session

README = Path(__file__).parents[2] / "README.md"
NUMBERS = {
    "steps=3_000": "steps=32",
    "steps=4_000": "steps=48",
    '"time_limit": 30': '"time_limit": 5',
}
"""The numbers of the script, and those of the test."""
LINES = 40


def blocks() -> tuple[str, str]:
    """The environment and the script."""
    found = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    return found[0], found[1]


def test_it_is_short_and_at_the_top() -> None:
    lines = [line for block in blocks() for line in block.splitlines() if line.strip()]
    assert len(lines) <= LINES
    assert README.read_text().index(blocks()[1]) < README.read_text().index("\n## ")


@pytest.mark.filterwarnings("ignore:Matplotlib is currently using agg")
def test_a_strangers_script_trains_extends_acts_imagines_and_plots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment, script = blocks()
    for written, used in NUMBERS.items():
        assert written in script
        script = script.replace(written, used)
    (tmp_path / "corridor.py").write_text(environment)
    (tmp_path / "main.py").write_text(script)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(session, "add_report", lambda *run: run[-1])
    monkeypatch.setattr(processes, "cores", lambda: 1)
    monkeypatch.setattr(tw, "train", partial(tw.train, overrides=TINY, threads=1))
    left: dict[str, Any] = runpy.run_path("main.py", run_name="__main__")
    assert left["run"].metrics["agent_steps"].max() == 48
    assert left["run"].finished
    assert left["dream"].rewards.shape == (4,)
    assert (tmp_path / "metrics.png").stat().st_size > 1000
    assert "20 episodes of python:corridor.py:Corridor" in capsys.readouterr().out
