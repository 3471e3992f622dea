"""A dream that a person plays, without a browser."""

from pathlib import Path
from typing import Any

import pytest
import torch
from dream_runs import WORLDS, untrained

from tokenworlds.agent import OpenedAgent, open_agent
from tokenworlds.core.errors import UserError
from tokenworlds.core.inspection import HoldsTokens
from tokenworlds.core.types import ActionSpace
from tokenworlds.pretrained import DEFAULT, folder_of
from tokenworlds.runs.own_code import Trust
from tokenworlds.viewer import dream as dreams
from tokenworlds.viewer.action_names import action_names
from tokenworlds.viewer.dream import Dream
from tokenworlds.viewer.dreamer import open_inquiries
from tokenworlds.viewer.inquiries import Inquiries
from tokenworlds.viewer.own_code import NOTHING
from tokenworlds.viewer.source import Source

pytest_plugins = ("viewer_fixtures",)


def dream_of(opened: OpenedAgent) -> Dream:
    return Dream(Source(opened, Trust()))


def inquiries_of(folder: Path, seed: int = 0) -> Inquiries:
    trust = Trust()
    return Inquiries(open_agent(folder, trust, "cpu"), trust, seed)


@pytest.mark.parametrize("recipe", WORLDS)
def test_every_world_is_played_rewound_and_branched(recipe: str) -> None:
    dream = dream_of(untrained(recipe))
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
        dream = dream_of(opened)
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


@pytest.mark.parametrize("recipe", WORLDS)
def test_alternatives_are_samples_of_one_step_that_the_dream_may_go_on_from(recipe: str) -> None:
    dream = dream_of(untrained(recipe))
    number = dream.start("reset")["number"]
    samples = dream.alternatives(number, 1)
    assert [(each["parent"], each["step"], each["action"]) for each in samples] == [
        (number, 1, 1)
    ] * 4
    assert len({tuple(each["tokens"]) for each in samples}) > 1
    assert dream.step(samples[2]["number"], 0)["step"] == 2


@pytest.mark.parametrize("recipe", ["step-vq-t", "iris", "delta-iris", "storm", "swm"])
def test_alternatives_leave_the_dream_as_it_is(recipe: str) -> None:
    opened = untrained(recipe)

    def third(with_alternatives: bool) -> dict[str, Any]:
        dream = dream_of(opened)
        number = dream.step(dream.start("reset")["number"], 1)["number"]
        if with_alternatives:
            dream.alternatives(number, 0)
        dream._generator.manual_seed(5)
        return dream.step(number, 2)

    assert third(True)["frame"] == third(False)["frame"]


@pytest.mark.parametrize("recipe", WORLDS)
def test_the_tokens_of_a_state_decode_to_its_frame(recipe: str) -> None:
    opened = untrained(recipe)
    dream = dream_of(opened)
    number = dream.step(dream.start("reset")["number"], 1)["number"]
    carry, world = dream._states[number].carry, opened.agent.world
    assert isinstance(world, HoldsTokens)
    tokens = world.tokens_in(carry)
    assert tokens is not None
    torch.testing.assert_close(world.view_with(carry, tokens).frame, world.view(carry).frame)
    other = world.view_with(carry, (tokens + 1) % 4).frame
    assert not torch.equal(other, world.view(carry).frame)


def test_a_dream_starts_at_the_recorded_step_that_is_named(played: Path) -> None:
    inquiries = inquiries_of(played)
    assert inquiries.describe()["replay_steps"] == 32
    assert inquiries.dream.start("replay", 20)["step"] == 0
    again = inquiries_of(played, seed=1).dream.start("replay", 20)
    assert again["frame"] == inquiries.dream.start("replay", 20)["frame"]


def test_a_step_outside_replay_is_named_with_the_steps_there_are(played: Path) -> None:
    with pytest.raises(UserError, match="replay has the steps 0 to 31, not 32"):
        inquiries_of(played).dream.start("replay", 32)


def test_a_saved_agent_dreams_from_the_steps_that_were_saved_with_it() -> None:
    inquiries = open_inquiries(folder_of(DEFAULT), NOTHING)
    steps = inquiries.describe()["replay_steps"]
    assert steps > 0
    start = {"kind": "start", "source": "replay", "step": steps - 1}
    number = inquiries.perform(start)["number"]
    assert inquiries.perform({"kind": "step", "from": number, "action": None})["step"] == 1
    episode = inquiries.perform({"kind": "episode", "origin": "replay", "number": None})
    found = inquiries.perform({"kind": "steps", "from": 0, "count": episode["length"]})
    assert len(found["steps"]) == episode["length"]


def test_an_agent_without_its_run_starts_from_resets_alone() -> None:
    inquiries = Inquiries(untrained("step-vq-m"), Trust())
    assert inquiries.describe()["replay_steps"] == 0
    with pytest.raises(UserError, match="no replay to dream from"):
        inquiries.dream.start("replay")


def test_continuous_actions_are_vectors() -> None:
    dream = dream_of(untrained("step-vq-m", "steer"))
    number = dream.start("reset")["number"]
    assert dream.step(number, [0.5])["action"] == [0.5]
    assert len(dream.step(number)["action"]) == 1
    with pytest.raises(UserError, match="1 numbers from -1 to 1"):
        dream.step(number, [3.0])


def test_the_oldest_states_are_dropped_when_memory_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    dream = dream_of(untrained("step-vq-m"))
    first = dream.start("reset")["number"]
    monkeypatch.setattr(dreams, "KEPT_BYTES", 1)
    later = dream.step(first, 0)
    assert later["oldest"] == later["number"]
    with pytest.raises(UserError, match="too far back"):
        dream.step(first, 0)


def test_an_agent_without_a_world_model_says_so() -> None:
    with pytest.raises(UserError, match="no world model"):
        dream_of(untrained("ppo"))


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
        {"kind": "alternatives", "from": 0, "action": 9},
    ],
    ids=str,
)
def test_a_bad_request_gets_a_sentence_and_the_dream_goes_on(
    played: Path, request_: dict[str, Any]
) -> None:
    inquiries = inquiries_of(played)
    inquiries.dream.start("replay", 3)
    assert inquiries.answer(request_)["kind"] == "problem"
    assert inquiries.answer({"kind": "step", "from": 0, "action": 0})["kind"] == "state"


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
