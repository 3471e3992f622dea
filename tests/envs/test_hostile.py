"""Hostile environments: each stops with one sentence that names it and what it did."""

import json
import multiprocessing
import re
from typing import Any

import numpy as np
import pytest
from hostile_envs import FAILING_STEP

from tokenworlds.core.errors import UserError
from tokenworlds.core.protocols import Env
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs import EnvSpec, VectorEnv
from tokenworlds.envs.frames import Grey
from tokenworlds.envs.toys import Catch
from tokenworlds.envs.vector import EnvironmentFailed

SHAPE = FrameShape(8, 8)
SENTENCES = {
    "Raising": r"ValueError: bad level \(.*hostile_envs\.py, line \d+\)",
    "FullDisk": r"OSError: \[Errno 28\] No space left on device \(.*hostile_envs\.py, line \d+\)",
    "NoMemory": r"MemoryError: out of memory; fewer environments \(num_envs\) need less \(.*",
    "BrokenPipe": r"BrokenPipeError: my socket \(.*",
    "Exiting": r"SystemExit: it called sys\.exit\('bye'\) \(.*hostile_envs\.py, line \d+\)",
    "Recursive": r"RecursionError: maximum recursion depth.*hostile_envs\.py, line \d+\)",
    "NanReward": "the reward is nan, not a finite float32",
    "InfiniteReward": "the reward is -inf, not a finite float32",
    "HugeReward": r"the reward is 1e\+300, not a finite float32",
    "TextReward": r"the reward is '1\.0', not a number",
    "NoReward": "the reward is None, not a number",
    "TwoRewards": r"the reward is array\(\[1\., 1\.\]\), not a number",
    "TextFlag": "terminated is 'False', not a bool",
    "NoFlag": "truncated is None, not a bool",
    "ListInfo": r"info is \[1\], not a mapping",
    "ThreeValues": "step returned a tuple of 3, not .*",
    "FourValues": "step returned a tuple of 4, not .*",
    "Timed": r"step must return \(observation, .*, info\): not enough values to unpack .*",
    "SixValues": "step returned a tuple of 6, not .*",
    "UnitFrame": r"it renders float64 .* with values 0\.5 to 0\.5, not an RGB array of uint8 .*",
    "FloatFrame": "it renders float32 .* with values 200 to 200, not .*",
    "WideFrame": "it renders int64 .* with values 7 to 7, not .*",
    "ChannelsFirst": r"it renders uint8 of shape \(3, 8, 8\), not .*",
    "NoChannels": r"it renders uint8 of shape \(8, 8\), not .*",
    "EmptyFrame": r"it renders uint8 of shape \(0, 8, 3\), not .*",
    "TextFrame": "it renders 'a frame', not .*",
    "NoFrame": "it renders None, not .*",
    "ObjectFrame": r"it renders object of shape \(8, 8, 3\), not .*",
}


def spec_of(name: str) -> EnvSpec:
    return EnvSpec(f"gym:hostile_envs:{name}-v0", "gymnasium,render=true", size=8)


def step_to_failure(envs: VectorEnv) -> EnvironmentFailed:
    """Take the steps before the one that fails, then that one."""
    actions = np.zeros(len(envs), np.int64)
    for _ in range(FAILING_STEP - 1):
        envs.step(actions)
    with pytest.raises(EnvironmentFailed) as caught:
        envs.step(actions)
    return caught.value


@pytest.mark.parametrize("name", SENTENCES)
def test_a_fault_is_one_sentence_with_environment_step_and_reason(name: str) -> None:
    envs = VectorEnv(spec_of(name), num_envs=2, seed=0)
    text = str(step_to_failure(envs))
    before, _, reason = text.partition(" game 0: ")
    assert before == f"environment gym:hostile_envs:{name}-v0 failed at step {FAILING_STEP} of"
    assert "\n" not in text
    assert_matches(SENTENCES[name], reason)


def assert_matches(pattern: str, text: str) -> None:
    assert re.fullmatch(pattern, text), text


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("RaisingReset", r"cannot be made: KeyError: 'level' \(.*hostile_envs\.py, line \d+\)"),
        ("RaisingInit", r"cannot be made: OSError: .* \(.*hostile_envs\.py, line \d+\)"),
        ("NoActions", r"cannot be made: its action_space is .*: it must have 1 action or more"),
    ],
)
def test_a_fault_at_the_start_is_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        VectorEnv(spec_of(name), num_envs=2, seed=0)
    assert_matches(f"environment gym:hostile_envs:{name}-v0 {sentence}", str(caught.value))


def test_the_error_of_the_environment_is_the_cause() -> None:
    error = step_to_failure(VectorEnv(spec_of("Raising"), num_envs=1, seed=0))
    assert isinstance(error.__cause__, ValueError)
    assert error.__cause__.__traceback__ is not None


def test_arrays_of_one_number_and_flags_of_0_and_1_are_converted() -> None:
    envs = VectorEnv(spec_of("Lenient"), num_envs=1, seed=0)
    rewards = [float(envs.step(np.zeros(1, np.int64)).reward[0]) for _ in range(5)]
    assert rewards == [1.0, 1.0, 2.0, 1.0, 1.0]
    assert json.loads(json.dumps(envs.state()))["finished"][0]["score"] == 6.0


def test_ctrl_c_passes_through() -> None:
    class Interrupted(Own):
        def step(self, action: Any) -> EnvStep:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened(Interrupted()).step(np.zeros(1, np.int64))


class Own:
    """An environment that follows this package's protocol; `values` spoil its steps."""

    frame_shape = SHAPE
    action_space = ActionSpace(2)

    def __init__(self, **values: Any) -> None:
        self.values = values

    def reset(self, seed: int) -> Any:
        return self.values.get("first_frame", np.zeros((8, 8, 3), np.uint8))

    def step(self, action: Any) -> EnvStep:
        return make_step(**self.values)

    def close(self) -> None:
        pass


def make_step(**values: Any) -> EnvStep:
    """An `EnvStep` of any values: its own constructor is checked while tests run."""
    defaults: dict[str, Any] = {
        "frame": np.zeros((8, 8, 3), np.uint8),
        "reward": 0.0,
        "terminated": False,
        "truncated": False,
        "over": False,
        "info": {},
    }
    step = object.__new__(EnvStep)
    for name, default in defaults.items():
        object.__setattr__(step, name, values.get(name, default))
    return step


class OwnSpec(EnvSpec):
    """A spec that makes given environments."""

    __slots__ = ("env",)

    def make(self, *, evaluation: bool = False) -> Env:
        env: Env = self.env  # type: ignore[attr-defined]
        return env


def opened(env: Env, num_envs: int = 1) -> VectorEnv:
    spec = OwnSpec("catch", size=8)
    object.__setattr__(spec, "env", env)
    return VectorEnv(spec, num_envs=num_envs, seed=0)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"reward": float("nan")}, "the reward is nan, not a finite float32"),
        ({"reward": np.float32("inf")}, "the reward is inf, not a finite float32"),
        ({"reward": None}, "the reward is None, not a number"),
        ({"reward": np.ones(2)}, r"the reward is array\(\[1\., 1\.\]\), not a number"),
        ({"terminated": "no"}, "terminated is 'no', not a bool"),
        ({"over": None}, "over is None, not a bool"),
        ({"info": 3}, "info is 3, not a mapping"),
        ({"over": True, "info": {"a": np.nan}}, r"info\['a'\] is nan, not a finite number"),
        ({"over": True, "info": {"a": "b"}}, r"info\['a'\] is 'b', not a finite number"),
        ({"frame": np.ones((8, 8, 3))}, r"the frame is float64 of shape \(8, 8, 3\) with .*"),
        ({"frame": np.ones((8, 8, 1), np.uint8)}, r"the frame is uint8 of shape \(8, 8, 1\), .*"),
        ({"frame": [[0]]}, r"the frame is list, not uint8 of shape \(8, 8, 3\)"),
    ],
)
def test_values_of_own_environments_are_checked(values: dict[str, Any], sentence: str) -> None:
    envs = opened(Own(**values))
    with pytest.raises(EnvironmentFailed) as caught:
        envs.step(np.zeros(1, np.int64))
    assert_matches(
        f"environment toy:catch failed at step 1 of game 0: {sentence}", str(caught.value)
    )


def test_the_first_frame_of_a_game_is_checked() -> None:
    with pytest.raises(EnvironmentFailed, match="failed at the start of game 0: the frame is None"):
        opened(Own(first_frame=None))


def test_a_step_that_is_no_env_step_is_refused() -> None:
    class Old(Own):
        def step(self, action: Any) -> Any:
            return np.zeros((8, 8, 3), np.uint8), 0.0, False, {}

    envs = opened(Old())
    with pytest.raises(EnvironmentFailed, match="step returned a tuple of 4, not an EnvStep"):
        envs.step(np.zeros(1, np.int64))


def test_numpy_numbers_and_flags_are_stored_as_json() -> None:
    values = {"reward": np.float32(0.5), "terminated": np.True_, "truncated": np.False_}
    envs = opened(Own(**values, over=np.True_, info={"a": np.int64(3)}))
    envs.step(np.zeros(1, np.int64))
    saved = json.loads(json.dumps(envs.state()))
    assert saved["finished"][0] | {"env": 0} == {
        "env": 0,
        "game": 0,
        "score": 0.5,
        "length": 1,
        "info": {"a": 3},
    }


def test_copies_that_draw_into_one_array_do_not_overwrite_each_other() -> None:
    class Shared(Own):
        canvas = np.zeros((8, 8, 3), np.uint8)

        def step(self, action: Any) -> EnvStep:
            self.canvas[:] += 1
            return make_step(frame=self.canvas)

    envs = opened(Shared(), num_envs=2)
    envs.step(np.zeros(2, np.int64))
    frames = envs.frames
    envs.step(np.zeros(2, np.int64))
    assert frames[:, 0, 0, 0].tolist() == [1, 2]
    assert envs.frames[:, 0, 0, 0].tolist() == [3, 4]


def test_grey_frames_are_made_of_checked_frames() -> None:
    with pytest.raises(UserError, match="the frame is float64"):
        Grey(Own(first_frame=np.full((8, 8, 3), 0.5))).reset(0)
    with pytest.raises(UserError, match="the frame is float64"):
        Grey(Own(frame=np.full((8, 8, 3), 0.5))).step(np.zeros((), np.int64))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Dying", r"the worker of copies 0 to 1 died \(exit code 7\)"),
        ("Hanging", "the worker of copies 0 to 1 did not answer within 4 s"),
    ],
)
def test_a_worker_that_fails_leaves_the_state_before_the_step(name: str, reason: str) -> None:
    polite = VectorEnv(spec_of("Polite"), num_envs=2, seed=0)
    with VectorEnv(spec_of(name), num_envs=2, seed=0, workers=1, timeout=4.0) as envs:
        text = str(step_to_failure(envs))
        assert_matches(f"environment gym:hostile_envs:{name}-v0: {reason}", text)
        for _ in range(FAILING_STEP - 1):
            polite.step(np.zeros(2, np.int64))
        assert envs.state() == polite.state()
    assert multiprocessing.active_children() == []


def test_a_failed_step_leaves_the_state_before_it() -> None:
    envs = VectorEnv(spec_of("NanReward"), num_envs=2, seed=0)
    polite = VectorEnv(spec_of("Polite"), num_envs=2, seed=0)
    for _ in range(FAILING_STEP - 1):
        polite.step(np.zeros(2, np.int64))
    step_to_failure(envs)
    assert envs.state() == polite.state()
    np.testing.assert_array_equal(envs.frames, polite.frames)
    envs.close()


def test_an_environment_that_cannot_close_is_left_behind() -> None:
    with VectorEnv(spec_of("Closing"), num_envs=2, seed=0) as envs:
        envs.step(np.zeros(2, np.int64))


def test_a_replay_that_fails_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = VectorEnv(EnvSpec("catch", size=8), num_envs=1, seed=0)
    envs.step(np.zeros(1, np.int64))
    other = VectorEnv(EnvSpec("catch", size=8), num_envs=1, seed=0)
    with monkeypatch.context() as patch:
        patch.setattr(Catch, "advance", lambda self, action: 1 // 0)
        with pytest.raises(EnvironmentFailed, match="ZeroDivisionError"):
            other.restore(envs.state())
    again = VectorEnv(EnvSpec("catch", size=8), num_envs=1, seed=0)
    assert again.restore(envs.state()) == []
