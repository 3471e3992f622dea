"""A recorded episode as the page of tokens shows it, without a browser."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dream_runs import WORLDS, untrained

from tokenworlds.agent import open_agent
from tokenworlds.core.errors import UserError
from tokenworlds.runs.own_code import Trust
from tokenworlds.viewer import comparison
from tokenworlds.viewer.inquiries import Inquiries
from tokenworlds.viewer.saliency import divergence, replacements

pytest_plugins = ("viewer_fixtures",)


def ask(inquiries: Inquiries, kind: str, **values: Any) -> dict[str, Any]:
    answer = inquiries.answer({"kind": kind, **values})
    assert answer["kind"] == kind, answer
    return answer


def opened(recipe: str) -> Inquiries:
    """An episode that an untrained agent has just played."""
    inquiries = Inquiries(untrained(recipe), Trust())
    ask(inquiries, "episode", origin="play", number=None)
    return inquiries


@pytest.fixture(scope="module")
def recorded(played: Path) -> Inquiries:
    trust = Trust()
    return Inquiries(open_agent(played, trust, "cpu"), trust)


@pytest.mark.parametrize("recipe", WORLDS)
def test_every_world_shows_tokens_their_surprise_and_what_the_policy_looks_at(recipe: str) -> None:
    inquiries = opened(recipe)
    first, second, third = ask(inquiries, "steps", **{"from": 0, "count": 3})["steps"]
    assert first["nll"] is None
    assert second["value"] is not None
    assert len(third["nll"]) == len(third["tokens"])
    assert min(third["nll"]) >= 0
    assert 0 <= third["error"] <= 1
    assert third["norm"] > 0
    assert sum(third["policy"]) == pytest.approx(1.0, abs=1e-4)
    swapped = ask(inquiries, "saliency", step=2, way="tokens")
    assert len(swapped["policy"]) == len(third["tokens"])
    assert max(swapped["policy"]) > 0
    covered = ask(inquiries, "saliency", step=2, way="patches")
    assert len(covered["policy"]) == math.prod(covered["grid"])
    assert max(covered["policy"]) > 0


def test_an_agent_without_a_world_model_is_looked_into_by_patches() -> None:
    inquiries = opened("ppo")
    (first,) = ask(inquiries, "steps", **{"from": 0, "count": 1})["steps"]
    assert (first["tokens"], first["decoded"], first["nll"]) == (None, None, None)
    assert max(ask(inquiries, "saliency", step=0, way="patches")["policy"]) > 0
    problem = inquiries.answer({"kind": "saliency", "step": 0, "way": "tokens"})["problem"]
    assert "no tokens to swap: occlude patches instead" in problem
    compare = inquiries.answer({"kind": "compare", "start": 0, "steps": 4})
    assert "no world model" in compare["problem"]


def test_the_surprise_is_what_the_evaluation_of_the_world_measures(recorded: Inquiries) -> None:
    """The mean over tokens is that of closed_loop on the same steps."""
    from tokenworlds.core.seeding import torch_generator
    from tokenworlds.evaluation.world.held_out import HeldOut
    from tokenworlds.evaluation.world.loops import closed_loop

    length = ask(recorded, "episode", origin="replay", number=0)["length"]
    steps = ask(recorded, "steps", **{"from": 0, "count": length})["steps"]
    segment, _ = recorded.source.episode(0)
    loop = closed_loop(recorded.opened.agent, HeldOut(segment, 0), torch_generator(0, "test"))
    shown = [float(np.mean(step["nll"])) for step in steps[1:]]
    assert shown == pytest.approx(loop.predicted.tokens.nll[0, : length - 1].tolist(), rel=1e-4)


def test_episodes_of_replay_are_numbered_and_begin_where_a_game_began(recorded: Inquiries) -> None:
    found = ask(recorded, "episode", origin="replay", number=None)
    assert 0 <= found["number"] < found["episodes"]
    replay = recorded.source.replay
    assert replay is not None
    assert sum(end - begin for _, begin, end in recorded.source.episodes()) == 32
    for env, begin, _ in recorded.source.episodes():
        assert begin == 0 or replay.first[env, begin]
    problem = recorded.answer({"kind": "episode", "origin": "replay", "number": 10**6})["problem"]
    assert "replay has the episodes 0 to" in problem


def test_usage_counts_the_tokens_of_the_episode_and_of_replay(recorded: Inquiries) -> None:
    length = ask(recorded, "episode", origin="replay", number=0)["length"]
    steps = ask(recorded, "steps", **{"from": 0, "count": length})["steps"]
    usage = ask(recorded, "usage")
    counts = np.bincount(np.concatenate([step["tokens"] for step in steps])).tolist()
    assert usage["counts"][: len(counts)] == counts
    assert usage["episode"]["used"] == sum(map(bool, counts))
    assert 1 <= usage["replay"]["usage_perplexity"] <= usage["replay"]["used"]


def test_delta_iris_compares_sampled_with_random_tokens() -> None:
    inquiries = opened("delta-iris")
    found = ask(inquiries, "random", step=2)
    assert len(found["sampled"]) == len(found["random"]) == 4
    assert found["sampled"] != found["random"]
    problem = inquiries.answer({"kind": "random", "step": 0})["problem"]
    assert "no step of the episode leads to this one" in problem


@pytest.mark.parametrize("recipe", WORLDS)
def test_dream_and_reality_stand_side_by_side_under_the_same_actions(recipe: str) -> None:
    found = ask(inquiries := opened(recipe), "compare", start=1, steps=4)
    steps = ask(inquiries, "steps", **{"from": 0, "count": 6})["steps"]
    assert [each["step"] for each in found["steps"]] == [2, 3, 4, 5]
    assert [each["real"] for each in found["steps"]] == [each["frame"] for each in steps[2:6]]
    assert [each["real_tokens"] for each in found["steps"]] == [s["tokens"] for s in steps[2:6]]
    differ = [each["step"] for each in found["steps"] if each["tokens"] != each["real_tokens"]]
    assert found["tokens_part"] == (differ[0] if differ else None)


def test_the_last_step_of_an_episode_has_nothing_to_compare_with(recorded: Inquiries) -> None:
    length = ask(recorded, "episode", origin="replay", number=0)["length"]
    for start in (length - 1, length, -1):
        problem = recorded.answer({"kind": "compare", "start": start, "steps": 4})["problem"]
        assert "no step of the episode follows" in problem


def test_errors_by_horizon_have_means_inside_their_intervals(
    recorded: Inquiries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "STARTS", 10)
    found = ask(recorded, "horizon", origin="replay", anew=True)
    while found["done"] < found["starts"]:
        before = found["done"]
        found = ask(recorded, "horizon", origin="replay", anew=False)
        assert found["done"] > before
    for curve in found["curves"].values():
        for low, mean, high in zip(curve["low"], curve["mean"], curve["high"], strict=True):
            assert low is None or low - 1e-6 <= mean <= high + 1e-6
    assert found["curves"]["dream"]["mean"][0] > 0
    assert set(found["curves"]) == {"dream", "still", "floor"}


def test_divergence_is_zero_for_the_same_policy_and_grows_with_its_change() -> None:
    real = torch.tensor([[0.5, 0.5]])
    found = divergence(real, torch.tensor([[0.5, 0.5], [0.6, 0.4], [0.9, 0.1]]))
    assert found[0] == pytest.approx(0, abs=1e-7)
    expected = 0.5 * math.log(0.5 / 0.6) + 0.5 * math.log(0.5 / 0.4)
    assert float(found[1]) == pytest.approx(expected, rel=1e-4)
    assert found[2] > found[1]


def test_a_token_is_swapped_for_those_of_its_place_first_and_never_for_itself() -> None:
    seen = torch.tensor([[1, 7], [2, 7], [3, 7], [4, 7], [5, 7]])
    found = replacements(seen[0], seen, 16, np.random.default_rng(0))
    assert sorted(found[0].tolist()) == [2, 3, 4, 5]
    assert 7 not in found[1].tolist()
    few = replacements(torch.tensor([0]), torch.tensor([[0]]), 2, np.random.default_rng(0))
    assert few.tolist() == [[1, 1, 1, 1]]


def test_steps_before_an_episode_is_open_are_refused(recorded: Inquiries) -> None:
    fresh = Inquiries(recorded.opened, Trust())
    with pytest.raises(UserError, match="no episode is open"):
        fresh.perform({"kind": "steps", "from": 0, "count": 1})
