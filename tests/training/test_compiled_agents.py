"""Agents learn the same compiled and not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "compiled_agents.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "how"),
    [("step-vq-m", "inductor"), ("storm", "eager"), ("iris", "eager"), ("swm", "eager")],
)
def test_compiled_updates_are_those_that_are_written(recipe: str, how: str) -> None:
    """With `eager` graphs are traced and run as they are, but without some rewrites for speed."""
    words = [sys.executable, str(PROGRAM), recipe, how]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["told"] == []
    assert found["gap"] < 1e-5
