"""The examples of docs/api.md run, with a tiny agent in the place of a trained one."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from api_runs import untrained

import tokenworlds as tw

pytest_plugins = ("api_fixtures",)
PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text()


def block(heading: str) -> str:
    """The first example under a heading."""
    section = PAGE.partition(f"# {heading}\n")[2]
    found = re.search(r"```python\n(.*?)```", section, re.S)
    assert found
    return found[1]


def test_the_page_names_everything_that_is_public() -> None:
    assert all(f"`{name}`" in PAGE for name in tw.__all__)
    attributes = re.findall(r"^\| `run\.(\w+)", PAGE, re.M)
    assert attributes
    assert all(hasattr(tw.Run, name) for name in attributes)


def test_an_agent_plays_a_game(run: tw.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.folder.parent)
    names: dict[str, Any] = {"tw": tw}
    exec(block("Act").replace("runs/step-vq-m-catch-s0", run.folder.name), names)
    assert names["done"]


def test_a_policy_acts_in_a_plain_loop() -> None:
    names: dict[str, Any] = {
        "gymnasium": gymnasium,
        "agent": untrained("step-vq-m", "gym:CartPole-v1"),
    }
    exec(block("In another environment loop"), names)
    assert names["env"].action_space.contains(names["action"])


def test_an_agent_imagines(agent: tw.Agent) -> None:
    obs = agent.make_env().reset(seed=0)[0]
    names: dict[str, Any] = {
        "agent": agent,
        "obs": obs,
        "history": np.stack([obs] * 3),
        "taken": [1, 1],
        "actions": [0, 1],
        "candidates": np.ones((5, 4), int),
    }
    exec(block("Imagine"), names)
    assert names["plans"].frames.shape == (5, 4, 16, 16, 3)


def test_the_package_is_imported_without_torch() -> None:
    code = "import sys, tokenworlds as tw; dir(tw); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
