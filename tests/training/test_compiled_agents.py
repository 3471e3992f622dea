"""Agents learn the same with and without compilation."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "compiled_agents.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "backend"),
    [("step-vq-m", "inductor"), ("storm", "eager"), ("iris", "eager"), ("swm", "eager")],
)
def test_compiled_updates_equal_plain_ones(recipe: str, backend: str) -> None:
    """With `eager`, graphs are traced and run as written, but without some rewrites for speed."""
    command = [sys.executable, str(PROGRAM), recipe, backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["notes"] == []
    assert found["gap"] < 1e-5
