"""A run in an environment of the current folder: trained, resumed and evaluated by its name."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from tiny_runs import sentence, train

from tokenworlds.cli import main

SOURCE = """
import pathlib

import gymnasium
import numpy as np
from gymnasium import spaces

pathlib.Path("imported").touch()


class Tiny(gymnasium.Env):
    observation_space = spaces.Dict(
        {"rgb": spaces.Box(0, 1, (3, 9, 7), np.float32), "speed": spaces.Box(-1, 1, (2,))}
    )
    action_space = spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level = self.np_random.random()
        return self.observe(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.level = 0.9 * self.level
        return self.observe(), 3.0 * action[0], self.level < 0.05, False, {}

    def observe(self):
        image = np.full((3, 9, 7), self.level, np.float32)
        return {"rgb": image, "speed": np.zeros(2, np.float32)}


def make():
    return gymnasium.wrappers.TimeLimit(Tiny(), 40)


gymnasium.register("OwnCliTiny-v0", Tiny)
"""
NAME = "my_cli_env.py:make"
OPTIONS = ("image_key=rgb", "frame_skip=2", "clip_rewards=true", "time_limit=7")
PROTOCOL = f"gymnasium,{','.join(OPTIONS)}"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    forget()


def forget() -> None:
    """As in a new process, the module was not imported."""
    sys.modules.pop("my_cli_env", None)
    gymnasium.registry.pop("OwnCliTiny-v0", None)


@pytest.fixture
def run(tmp_path: Path, _no_report: None, capsys: pytest.CaptureFixture[str]) -> Path:
    (tmp_path / "my_cli_env.py").write_text(SOURCE)
    words = train(tmp_path / "run")
    assert main([words[0], "--env", NAME, "--env-set", *OPTIONS, *words[1:]]) == 0
    assert f"protocol {PROTOCOL}" in capsys.readouterr().out
    forget()
    (tmp_path / "imported").unlink()
    return tmp_path / "run"


def document(path: Path) -> Any:
    return json.loads(path.read_text())


def test_a_run_keeps_the_options_and_imports_its_environment_only_when_told(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    described = document(run / "run.json")
    assert described["run"]["env"]["name"] == f"python:{NAME}"
    assert described["run"]["env"]["protocol"] == PROTOCOL
    assert f"--env-set {' '.join(OPTIONS)}" in described["command"]
    result = document(run / "evaluation.json")
    assert result["protocol"] == PROTOCOL
    # Seven agent steps of two rewards each, which evaluations do not clip.
    assert max(result["random_returns"]) > 7
    capsys.readouterr()
    for command in (["resume"], ["evaluate", "--episodes", "1"]):
        assert main([command[0], str(run), *command[1:]]) == 2
        text = sentence(capsys.readouterr().err)
        assert f"{run} plays python:{NAME}, which imports the module my_cli_env.py" in text
    assert not Path("imported").exists()
    assert main(["evaluate", str(run), "--episodes", "1", "--env", NAME]) == 0
    assert Path("imported").exists()


def test_a_run_and_its_environment_may_move_to_other_folders(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "games").mkdir()
    (tmp_path / "my_cli_env.py").rename(tmp_path / "games" / "my_cli_env.py")
    moved = run.rename(tmp_path / "games" / "moved")
    words = ["evaluate", str(moved), "--episodes", "2", "--json"]
    assert main([*words, "--env", "games/my_cli_env.py:Tiny"]) == 2
    assert main([*words, "--env", "games/my_cli_env.py:make"]) == 0
    assert json.loads(capsys.readouterr().out)["env"] == f"python:{NAME}"


def test_the_console_script_finds_a_module_of_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "my_cli_env.py").write_text(SOURCE)
    # A console script has the folder of the script on its path, not the current one.
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "tokenworlds"
    script.write_text("import sys\nfrom tokenworlds.cli import main\nsys.exit(main())\n")
    words = ["show", "step-vq-m", "--env", "gym:my_cli_env:OwnCliTiny-v0"]
    done = subprocess.run(
        [sys.executable, str(script), *words],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert sentence(done.stderr) == (
        "gym:my_cli_env:OwnCliTiny-v0 observes a Dict of rgb, speed: choose what the agent sees "
        "with --env-set image_key=rgb"
    )


@pytest.mark.parametrize(
    "render", ["", "    def render(self):\n        raise NotImplementedError\n"]
)
def test_an_environment_that_does_not_render_is_named_and_not_the_recipe(
    render: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = SOURCE.replace("    def observe", f"{render}\n    def observe")
    (tmp_path / "my_cli_env.py").write_text(source)
    words = train(tmp_path / "run")
    for name in ("my_cli_env.py:Tiny", "my_cli_env.py:make", "gym:my_cli_env:OwnCliTiny-v0"):
        assert main([words[0], "--env", name, "--env-set", "render=true", *words[1:]]) == 2
        text = sentence(capsys.readouterr().err)
        assert " does not render: give it a render() that returns an RGB array" in text
        assert "recipe" not in text
    assert not (tmp_path / "run").exists()
