"""Agents and environments of the user's own files in the viewer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dream_runs import untrained

from tokenworlds.agent import OpenedAgent
from tokenworlds.viewer.inquiries import Inquiries
from tokenworlds.viewer.own_code import NOTHING, OwnCode

GAME = "python:my_catch.py:make"
ENV = """
import pathlib
import gymnasium
import numpy as np

pathlib.Path("executed").touch()


class Blink(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        return np.full((64, 64, 3), 99, np.uint8), {}

    def step(self, action):
        return self.reset()[0], 0.0, False, False, {}


make = Blink
"""
START = {"kind": "start", "source": "reset", "step": None}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file that tells whether it was executed."""
    (tmp_path / "my_catch.py").write_text(ENV)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(own_code: OwnCode) -> dict[str, Any]:
    """What the viewer says to a start from the reset of the user's environment."""
    opened = untrained("step-vq-m")
    assert opened.env is not None
    env = replace(opened.env, name=GAME, protocol="gymnasium")
    return Inquiries(OpenedAgent(opened.agent, env), own_code.load()).answer(START)


def test_a_game_of_the_users_own_file_is_refused_with_the_way_to_allow_it(folder: Path) -> None:
    problem = answer(NOTHING)["problem"]
    assert "imports the module" in problem
    assert "--env" in problem
    assert "--trust" in problem
    assert not (folder / "executed").exists()


@pytest.mark.parametrize("own_code", [OwnCode(env="my_catch.py:make"), OwnCode(trust=True)])
def test_a_game_that_the_user_names_or_trusts_is_played(folder: Path, own_code: OwnCode) -> None:
    assert answer(own_code)["kind"] == "state"
    assert (folder / "executed").exists()


def test_what_the_user_allows_reaches_the_process_of_an_agent() -> None:
    allowed = OwnCode(("a.py", "b.py:mine"), "my_env.py:make", trust=True)
    assert OwnCode.from_argument(allowed.to_argument()) == allowed
