"""Agents learn the built-in games to nine tenths of the best return, with the commands a user has.

What is claimed: `nano`, the recipe's own number of steps, protocol `toy`, 100 greedy episodes.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

GOAL = 0.9
OTHERS = (
    *("cb-m", "cb-t", "step-vq-t", "step-vq-m-ce", "storm", "git-storm"),
    *("iris", "delta-iris", "swm", "dreamer-v3", "ppo"),
)


def learn(recipe: str, seed: int, run: Path, env: str = "catch") -> float:
    choices = ["--env", env, "--seed", str(seed)]
    words = [sys.executable, "-m", "tokenworlds", "train", recipe, *choices]
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
@pytest.mark.parametrize("recipe", OTHERS)
def test_the_others_learn_too(tmp_path: Path, recipe: str) -> None:
    assert learn(recipe, 0, tmp_path / "run") >= GOAL


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["step-vq-t", "git-storm", "dreamer-v3"])
def test_continuous_actions_are_learned(tmp_path: Path, recipe: str) -> None:
    """The best return of `steer` is 5, random play scores 0.7."""
    assert learn(recipe, 0, tmp_path / "run", "steer") >= GOAL * 5
