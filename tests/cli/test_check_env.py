"""`tokenworlds check-env` says what an agent would meet, or in one sentence what is wrong."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_runs import sentence

from tokenworlds.cli import main

SOURCE = """
import random

import gymnasium
import numpy as np
from gymnasium import spaces

SHAPE = (12, 12, 3)


class Good(gymnasium.Env):
    observation_space = spaces.Box(0, 255, SHAPE, np.uint8)
    action_space = spaces.MultiDiscrete([2, 2])
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.colour = 0, int(self.np_random.integers(100))
        return self.frame(), {}

    def step(self, action):
        self.steps += 1
        return self.frame(), self.reward(), self.steps == 5, False, {}

    def frame(self):
        return np.full(SHAPE, self.colour + self.steps, np.uint8)

    def reward(self):
        return 2.0 if self.steps == 5 else 0.0


class Lucky(Good):
    def frame(self):
        return np.full(SHAPE, random.randrange(256), np.uint8)


class Dull(Good):
    def frame(self):
        return np.zeros(SHAPE, np.uint8)

    def reward(self):
        return 0.0

    def step(self, action):
        return self.frame(), 0.0, False, False, {}


class Vector(Good):
    observation_space = spaces.Box(-1, 1, (4,))


class Nan(Good):
    def reward(self):
        return float("nan") if self.steps == 3 else 0.0


class Growing(Good):
    def frame(self):
        return np.zeros((12 + self.steps, 12, 3), np.uint8)


class Picky(Good):
    def step(self, action):
        assert len(action) == 3, "an action has three parts"


class Outside(Good):
    def reset(self, *, seed=None, options=None):
        return self.frame(), {}

    def frame(self):
        return np.full(SHAPE, self.steps, np.uint8)
"""


@pytest.fixture(autouse=True)
def _file(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "my_checked_envs.py").write_text(SOURCE)
    yield
    sys.modules.pop("my_checked_envs", None)


def check(name: str, *more: str) -> int:
    return main(["check-env", f"my_checked_envs.py:{name}", "--steps", "50", *more])


def report(name: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert check(name, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_a_good_environment_is_reported_with_the_command_to_train(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = report("Good", capsys)
    assert found["observations"] == "Box(0, 255, (12, 12, 3), uint8)"
    assert found["actions"] == "MultiDiscrete([2 2]) as 4 choices"
    assert found["frame"] == [64, 64, 3]
    assert (found["games"], found["terminated"], found["truncated"]) == (10, 10, 0)
    assert (found["mean_length"], found["mean_return"]) == (5.0, 2.0)
    assert (found["reward_low"], found["reward_high"], found["reward_share"]) == (0, 2, 0.2)
    assert found["deterministic"]
    assert found["notes"] == found["checker"] == []
    assert found["steps_per_second"] > 0
    assert found["command"] == "tokenworlds train --env my_checked_envs.py:Good"


def test_the_options_are_played_and_named_in_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert check("Good", "--env-set", "time_limit=3", "clip_rewards=true") == 0
    text = capsys.readouterr().out
    assert "16 in 50 random steps: 0 terminated, 16 truncated; mean length 3.0" in text
    assert text.splitlines()[-1].endswith("--env-set time_limit=3 clip_rewards=true")


def test_randomness_outside_the_seed_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    found = report("Lucky", capsys)
    assert not found["deterministic"]
    assert "differs from itself at its first frame" in found["notes"][0]


def test_an_environment_without_rewards_ends_or_sights_is_noted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    notes = " ".join(report("Dull", capsys)["notes"])
    assert "every frame is the same" in notes
    assert "no reward in 50 random steps" in notes
    assert "no game ended in 50 steps: play more of them, or set a time_limit" in notes


def test_findings_of_gymnasiums_checker_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert any("seed" in finding for finding in report("Outside", capsys)["checker"])


def test_frames_are_written_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("Good", "--resolution", "8", "--out", "strip.png") == 0
    assert "strip        strip.png" in capsys.readouterr().out
    picture = np.array(Image.open("strip.png"))
    assert picture.shape == (16, 10 * 16 + 9 * 2, 3)
    assert len(np.unique(picture)) > 2


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("Vector", (), "observes a Box of shape (4,), no image: add --env-set render=true"),
        ("Good", ("--env-set", "render=true"), "does not render: give it a render()"),
        ("Nan", (), "failed at step 3 of game 0: the reward is nan, not a finite float32"),
        (
            "Growing",
            (),
            "failed at step 1 of game 0: the observation is uint8 of shape (13, 12, 3)",
        ),
        ("Picky", (), "AssertionError: an action has three parts (my_checked_envs.py, line "),
        ("Goood", (), "did you mean 'Good'?"),
        ("Good", ("--out", "strip.gif"), "its name must end in .png"),
    ],
)
def test_a_faulty_environment_is_one_sentence(
    name: str, options: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(name, *options) == 2
    assert expected in sentence(capsys.readouterr().err)
