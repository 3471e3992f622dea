"""Environments of the user's own, by file, by module and as Python objects."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tokenworlds.core.errors import UserError
from tokenworlds.envs import EnvSpec, VectorEnv, make, named_env, with_options

SOURCE = """
import gymnasium
import numpy as np
from gymnasium import spaces
import my_neighbour_of_envs


class Tiny(gymnasium.Env):
    observation_space = spaces.Box(0, 255, (8, 8, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.frame = self.np_random.integers(0, 256, (8, 8, 3), np.uint8)
        return self.frame, {}

    def step(self, action):
        return self.frame + np.uint8(action), 1.0, False, False, {}


class Games:
    tiny = Tiny


def make():
    return Tiny()


def wrong():
    return 3


SIZE = 8
gymnasium.register("OwnTiny-v0", Tiny)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with modules, as a console script finds it: not on the path."""
    (tmp_path / "my_own_envs.py").write_text(SOURCE)
    (tmp_path / "my_neighbour_of_envs.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]
    gymnasium.registry.pop("OwnTiny-v0", None)


@pytest.mark.parametrize(
    "name",
    ["my_own_envs.py:make", "my_own_envs.py:Games.tiny", "gym:my_own_envs:OwnTiny-v0"],
)
def test_an_environment_of_the_current_folder_is_found(name: str, folder: Path) -> None:
    env = make(name, size=8)
    frame = env.reset(3)
    assert env.step(np.asarray(1)).frame.tolist() == (frame + np.uint8(1)).tolist()
    np.testing.assert_array_equal(frame, make(name, size=8).reset(3))


def test_a_module_of_a_package_is_found(folder: Path) -> None:
    (folder / "my_package_of_games").mkdir()
    (folder / "my_own_envs.py").rename(folder / "my_package_of_games" / "tiny.py")
    assert make("my_package_of_games.tiny:make", size=8).reset(0).shape == (8, 8, 3)


def test_a_spec_imports_nothing_before_the_environment_is_made(folder: Path) -> None:
    (folder / "my_own_envs.py").write_text("raise SystemExit(3)")
    EnvSpec("my_own_envs.py:make")
    assert "my_own_envs" not in sys.modules


def test_workers_make_the_environment_of_a_file(folder: Path) -> None:
    spec = EnvSpec("my_own_envs.py:make", size=8)
    with (
        VectorEnv(spec, num_envs=2, seed=0, workers=1) as far,
        VectorEnv(spec, num_envs=2, seed=0) as near,
    ):
        np.testing.assert_array_equal(far.frames, near.frames)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("my_own_envs.py:mkae", r"unknown factory in my_own_envs.py 'mkae'.* mean 'make'\?"),
        ("my_own_envs.py:SIZE", "is a int: name a function that makes a gymnasium.Env"),
        ("my_own_envs.py:wrong", "makes a int, not a gymnasium.Env"),
        ("nowhere.py:make", "'nowhere.py' is no file"),
        ("nowhere.games:make", "module nowhere.games, which is not in the current folder"),
        ("gym:nowhere:Maze-v0", "module nowhere, which is not in the current folder"),
        ("my_own_envs:make", "an environment of your own is my_env.py:make"),
        ("python::make", "names no environment: write my_env.py:make"),
        ("python:Maze", "exists only in the Python process that made it"),
    ],
)
def test_a_wrong_name_is_one_sentence(name: str, sentence: str, folder: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        make(name)


def test_a_mistake_in_the_file_is_named_with_its_line(folder: Path) -> None:
    (folder / "my_own_envs.py").write_text("\nimport nonexistent_package\n")
    for _ in range(2):
        with pytest.raises(UserError, match=r"No module named 'nonexistent_package' .*line 2"):
            make("my_own_envs.py:make")


def test_a_file_with_the_name_of_a_package_does_not_replace_it(folder: Path) -> None:
    (folder / "my_own_envs.py").rename(folder / "gymnasium.py")
    make("gymnasium.py:make", size=8)
    assert sys.modules["gymnasium"] is gymnasium


class Counter(gymnasium.Env[Any, Any]):
    """Shows the number of steps since it was made, and counts what was made."""

    observation_space = spaces.Box(0, 255, (8, 8), np.uint8)
    action_space = spaces.Discrete(2)
    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        return self._image(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._image(), 0.0, False, False, {}

    def _image(self) -> np.ndarray:
        return np.full((8, 8), self.steps, np.uint8)


def test_a_callable_makes_one_environment_for_each_copy() -> None:
    before = Counter.made
    spec = EnvSpec(named_env(lambda: Counter()), size=8)
    with VectorEnv(spec, num_envs=3, seed=0):
        assert Counter.made == before + 3


def test_an_instance_is_copied_and_never_stepped() -> None:
    env = Counter()
    with VectorEnv(EnvSpec(named_env(env), size=8), num_envs=2, seed=0) as envs:
        envs.step(np.zeros(2, np.int64))
        assert envs.frames.max() == 1
    assert env.steps == 0


def test_an_instance_that_cannot_be_copied_asks_for_a_callable() -> None:
    env = Counter()
    env.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"Counter cannot be copied .* pass a callable"):
        named_env(env)


def test_a_class_of_a_module_is_named_after_it() -> None:
    assert named_env(Counter) == f"python:{__name__}:Counter"
    assert named_env("catch") == "catch"
    with pytest.raises(UserError, match="not int"):
        named_env(3)


def test_two_environments_of_one_name_are_kept_apart_and_a_given_name_is_replaced() -> None:
    class Empty(Counter):
        observation_space = spaces.Box(0, 255, (0, 8), np.uint8)

    first, second = named_env(lambda: Counter()), named_env(lambda: Empty())
    assert first != second
    make(first, size=8)
    assert named_env(lambda: Empty(), name=first) == first
    with pytest.raises(UserError, match="no image"):
        make(first, size=8)


def test_options_are_stored_in_the_protocol_in_one_spelling() -> None:
    spec = EnvSpec("gym:CartPole-v1", ",frame_skip=4,render=True")
    assert spec.protocol == "gymnasium,render=true,frame_skip=4"
    assert spec.frame_skip == 4
    assert EnvSpec(spec.name, spec.protocol) == spec
    assert EnvSpec("gym:CartPole-v1", "gymnasium,frame_skip=1").protocol == "gymnasium"
    assert with_options("gymnasium,frame_skip=2", {"frame_skip": 3}) == "gymnasium,frame_skip=3"


@pytest.mark.parametrize(
    ("name", "option", "sentence"),
    [
        ("gym:CartPole-v1", "frame_skips=4", r"unknown option .* did you mean 'frame_skip'\?"),
        ("gym:CartPole-v1", "frame_skip=0", "takes a whole number of 1 or more, not '0'"),
        ("gym:CartPole-v1", "render=yes", "render takes true or false, not 'yes'"),
        ("gym:CartPole-v1", "image_key=", "image_key takes the key of an image"),
        ("gym:CartPole-v1", "render", "'render' is no option of an environment: write NAME=VALUE"),
        ("atari:Pong", "frame_skip=2", "takes no option frame_skip=2: its protocol decides"),
    ],
)
def test_a_wrong_option_is_one_sentence(name: str, option: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        EnvSpec(name, with_options("", [option]))


def test_an_environment_sees_either_its_image_or_its_rendered_frames() -> None:
    with pytest.raises(UserError, match="render=true and image_key=rgb: choose"):
        with_options("", {"render": True, "image_key": "rgb"})
