"""Agents learn the built-in game to nine tenths of the best return, with the commands a user has.

What is claimed: `nano`, the recipe's own number of steps, protocol `toy`, 100 greedy episodes.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

GOAL = 0.9


def learn(recipe: str, seed: int, run: Path) -> float:
    words = [sys.executable, "-m", "tokenworlds", "train", recipe, "--seed", str(seed)]
    done = subprocess.run([*words, "--run", str(run)], capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr[-2000:]
    returns: list[float] = json.loads((run / "evaluation.json").read_text())["returns"]
    assert len(returns) == 100
    return sum(returns) / len(returns)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_demo_learns(tmp_path: Path, seed: int) -> None:
    assert learn("step-vq-m", seed, tmp_path / "run") >= GOAL


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["cb-m", "cb-t", "step-vq-t", "step-vq-m-ce"])
def test_the_others_learn_too(tmp_path: Path, recipe: str) -> None:
    assert learn(recipe, 0, tmp_path / "run") >= GOAL
