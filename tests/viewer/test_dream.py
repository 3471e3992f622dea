"""A dream that a person plays, without a browser."""

from pathlib import Path
from typing import Any

import pytest
from dream_runs import WORLDS, untrained

from tokenworlds.agent import open_agent
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace
from tokenworlds.runs.own_code import Trust
from tokenworlds.viewer import dream as dreams
from tokenworlds.viewer.action_names import action_names
from tokenworlds.viewer.dream import Dream
from tokenworlds.viewer.dreamer import answer

pytest_plugins = ("viewer_fixtures",)


def dream_of(folder: Path, seed: int = 0) -> Dream:
    trust = Trust()
    return Dream(open_agent(folder, trust, "cpu"), trust, seed)


@pytest.mark.parametrize("recipe", WORLDS)
def test_every_world_is_played_rewound_and_branched(recipe: str) -> None:
    dream = Dream(untrained(recipe), Trust())
    state = dream.start("reset")
    numbers = [state["number"]]
    for action in (0, 1, None, 2, None, 0):
        state = dream.step(numbers[-1], action)
        numbers.append(state["number"])
    assert state["step"] == 6
    assert sum(state["policy"]) == pytest.approx(1.0, abs=1e-4)
    assert 0.0 <= state["terminated"] <= 1.0
    assert state["tokens"]
    assert state["frame"].startswith("data:image/png;base64,")
    branch = dream.step(numbers[2], 1)
    assert (branch["parent"], branch["step"]) == (numbers[2], 3)


@pytest.mark.parametrize("recipe", ["step-vq-t", "iris", "delta-iris", "storm"])
def test_a_branch_is_what_it_had_been_without_the_steps_after_it(recipe: str) -> None:
    """Caches are written in place: later steps must not reach an earlier state."""

    def branch(steps_before: int) -> dict[str, Any]:
        dream = Dream(opened, Trust())
        number = dream.start("reset")["number"]
        first = dream.step(number, 1)["number"]
        at = first
        for _ in range(steps_before):
            at = dream.step(at, 0)["number"]
        dream._generator.manual_seed(5)
        return dream.step(first, 2)

    opened = untrained(recipe)
    plain, after = branch(0), branch(3)
    assert plain["tokens"] == after["tokens"]
    assert plain["frame"] == after["frame"]


def test_a_dream_starts_at_the_recorded_step_that_is_named(played: Path) -> None:
    dream = dream_of(played)
    assert dream.describe()["replay_steps"] == 32
    assert dream.start("replay", 20)["step"] == 0
    again = dream_of(played, seed=1).start("replay", 20)
    assert again["frame"] == dream.start("replay", 20)["frame"]


def test_a_step_outside_replay_is_named_with_the_steps_there_are(played: Path) -> None:
    with pytest.raises(UserError, match="replay has the steps 0 to 31, not 32"):
        dream_of(played).start("replay", 32)


def test_an_agent_without_its_run_starts_from_resets_alone() -> None:
    dream = Dream(untrained("step-vq-m"), Trust())
    assert dream.describe()["replay_steps"] == 0
    with pytest.raises(UserError, match="no replay to dream from"):
        dream.start("replay")


def test_continuous_actions_are_vectors() -> None:
    dream = Dream(untrained("step-vq-m", "steer"), Trust())
    number = dream.start("reset")["number"]
    assert dream.step(number, [0.5])["action"] == [0.5]
    assert len(dream.step(number)["action"]) == 1
    with pytest.raises(UserError, match="1 numbers from -1 to 1"):
        dream.step(number, [3.0])


def test_the_oldest_states_are_dropped_when_memory_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    dream = Dream(untrained("step-vq-m"), Trust())
    first = dream.start("reset")["number"]
    monkeypatch.setattr(dreams, "KEPT_BYTES", 1)
    later = dream.step(first, 0)
    assert later["oldest"] == later["number"]
    with pytest.raises(UserError, match="too far back"):
        dream.step(first, 0)


def test_an_agent_without_a_world_model_says_so() -> None:
    with pytest.raises(UserError, match="no world model"):
        Dream(untrained("ppo"), Trust())


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"kind": "start", "source": "/etc", "step": None},
        {"kind": "start", "source": "replay", "step": -1},
        {"kind": "step", "from": 77, "action": 0},
        {"kind": "step", "from": 0, "action": 3},
        {"kind": "step", "from": 0, "action": True},
        {"kind": "step", "from": 0, "action": [1.0]},
        {"kind": "step", "from": "0", "action": 0},
    ],
    ids=str,
)
def test_a_bad_request_gets_a_sentence_and_the_dream_goes_on(
    played: Path, request_: dict[str, Any]
) -> None:
    dream = dream_of(played)
    dream.start("replay", 3)
    assert answer(dream, request_)["kind"] == "problem"
    assert answer(dream, {"kind": "step", "from": 0, "action": 0})["kind"] == "state"


@pytest.mark.parametrize(
    ("env", "space", "names"),
    [
        ("toy:catch", ActionSpace(3), ["LEFT", "STAY", "RIGHT"]),
        ("minatar:breakout", ActionSpace(3), ["NOOP", "LEFT", "RIGHT"]),
        ("gym:Other-v0", ActionSpace(2), ["action 0", "action 1"]),
        ("toy:steer", ActionSpace(1, discrete=False), ["axis 1"]),
    ],
)
def test_actions_have_the_names_of_the_game(env: str, space: ActionSpace, names: list[str]) -> None:
    assert action_names(env, space) == names


def test_atari_actions_have_the_names_of_the_emulator() -> None:
    pytest.importorskip("ale_py")
    names = ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]
    assert action_names("atari:Pong", ActionSpace(6)) == names
