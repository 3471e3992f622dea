"""A run whose environment fails ends with one sentence about the environment."""

from pathlib import Path
from typing import Any

import pytest
from tiny_runs import final_weights, newest_checkpoint, sentence, train

from tokenworlds.cli import main
from tokenworlds.core.types import EnvStep
from tokenworlds.envs.toys import Catch
from tokenworlds.evaluation.comparison.listing import list_run

MAZE = """
import gymnasium
import numpy as np
from gymnasium import spaces


class Maze(gymnasium.Env):
    metadata = {{"render_modes": ["rgb_array"]}}
    observation_space = spaces.Discrete(1)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode, self.steps = render_mode, 0

    def reset(self, *, seed=None, options=None):
        return 0, {{}}

    def step(self, action):
        self.steps += 1
        if self.steps == 9:
            {fault}
        return 0, 0.0, False, False, {{}}

    def render(self):
        return np.zeros((16, 16, 3), np.uint8)


gymnasium.register("{name}-v0", Maze, max_episode_steps=5)
"""


@pytest.mark.usefixtures("_no_report")
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("raise OSError(28, 'No space left on device')", "OSError: [Errno 28] No space left"),
        ("raise SystemExit(0)", "SystemExit: it called sys.exit(0) (maze_"),
        ("return 0, float('nan'), False, False, {}", "the reward is nan, not a finite float32"),
    ],
    ids=["disk", "exit", "nan"],
)
def test_a_failure_is_one_sentence_about_the_environment(
    fault: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    module = f"maze_{request.node.callspec.id}"
    (tmp_path / f"{module}.py").write_text(MAZE.format(name=module, fault=fault))
    monkeypatch.syspath_prepend(tmp_path)
    words, name = train(tmp_path / "run"), f"gym:{module}:{module}-v0"
    env = ["--env", name, "--env-set", "render=true"]
    assert main([*words[:1], *env, *words[1:]]) == 2
    text = sentence(capsys.readouterr().err)
    # The time limit of the id ends a game after five steps.
    assert text.startswith(f"environment {name} failed at step 4 of game 1: {reason}")
    assert "nan" in reason or f"({module}.py, line " in text
    assert f"nothing is lost: fix this, then run 'tokenworlds resume {tmp_path / 'run'}'" in text


@pytest.mark.usefixtures("_no_report")
@pytest.mark.parametrize(("call", "saved"), [(7, 6), (21, 20), (35, 24)])
def test_a_run_resumed_after_a_failure_ends_like_an_uninterrupted_one(
    call: int,
    saved: int,
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Within the warm-up, which is one phase; while acting; and in the evaluation of step 24."""
    run, advance, calls = tmp_path / "run", Catch.advance, iter(range(1_000_000))

    def fail_once(self: Catch, action: Any) -> EnvStep:
        if next(calls) == call:
            raise RuntimeError("unplugged")
        return advance(self, action)

    with monkeypatch.context() as patched:
        patched.setattr(Catch, "advance", fail_once)
        assert main(train(run)) == 2
    assert "RuntimeError: unplugged" in sentence(capsys.readouterr().err)
    assert newest_checkpoint(run).name == f"step-{saved:09d}"
    listed = list_run(run)
    assert (listed.state, "RuntimeError: unplugged" in listed.problem) == ("failed", True)
    assert main(["resume", str(run)]) == 0
    assert (list_run(run).state, (run / "failure.json").exists()) == ("finished", False)
    assert final_weights(run) == final_weights(finished)
    for name in ("metrics.jsonl", "evaluation.json"):
        assert (run / name).read_bytes() == (finished / name).read_bytes()
