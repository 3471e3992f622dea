"""Environments that a user passes as objects."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from api_runs import run_without_report
from gymnasium import spaces

import tokenworlds as tw


class Lamp(gymnasium.Env[Any, Any]):
    """Switch the lamp on; a small grey image as floats, beside a number."""

    observation_space: Any = spaces.Dict(
        {"image": spaces.Box(0, 1, (12, 10), np.float32), "time": spaces.Box(0, 9, ())}
    )
    action_space: Any = spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.light, self.steps = float(self.np_random.random() / 2), 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self.light, self.steps = min(self.light + 0.1 * action[0], 1.0), self.steps + 1
        return self.observe(), float(action[0]), self.light >= 1, self.steps >= 9, {}

    def observe(self) -> dict[str, Any]:
        image = np.full((12, 10), self.light, np.float32)
        return {"image": image, "time": np.float32(self.steps)}


def test_a_run_takes_an_instance_and_its_agent_plays_in_it(tmp_path: Path) -> None:
    run = run_without_report(tmp_path / "run", env=Lamp(), env_options={"image_key": "image"})
    agent = run.agent()
    assert agent.evaluate(2).lengths.max() <= 9
    env = Lamp()
    policy = agent.as_policy(env)
    obs, _ = env.reset(seed=0)
    over = False
    while not over:
        obs, _, terminated, truncated, _ = env.step(policy(obs))
        over = terminated or truncated
    again = tw.Agent.load(run.folder, env=Lamp())
    assert again.evaluate(2).returns.tolist() == agent.evaluate(2).returns.tolist()


def test_a_class_of_a_module_must_be_named_again(tmp_path: Path) -> None:
    run = run_without_report(tmp_path / "run", env=Lamp, env_options={"image_key": "image"})
    loaded = tw.Agent.load(run.folder)
    assert loaded.act(np.zeros((16, 16, 3), np.uint8)) in range(4)
    with pytest.raises(
        tw.UserError, match=r"imports the module test_own_env: .*env=\.\.\., or trust"
    ):
        loaded.make_env()
    assert tw.Agent.load(run.folder, env=Lamp).evaluate(1).env == "python:test_own_env:Lamp"
    assert tw.Run.open(run.folder, trust=True).agent().make_env().reset(seed=0)


def test_what_is_no_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        tw.UserError, match=r"a gymnasium\.Env or a callable that makes one, not int"
    ):
        tw.train(env=3, run=tmp_path / "run")
