"""The verdict on agents of which one part at a time is broken."""

import numpy as np
import pytest
from catch_oracle import SIDE, CatchRules, Oracle, oracle_agent
from test_world_measurement import fresh

from tokenworlds.core.seeding import torch_generator
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.evaluation.world import held_out
from tokenworlds.evaluation.world.held_out import play_held_out
from tokenworlds.evaluation.world.measurement import Measured, measure
from tokenworlds.evaluation.world.scores import Figures, reward_scores
from tokenworlds.evaluation.world.verdict import Finding, first_fault, judge

PARTS = ["tokenizer", "dynamics", "reward head", "termination head", "value", "policy"]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "STEPS", 21)
    monkeypatch.setattr(held_out, "ENVIRONMENTS", 4)


def measured(broken: Oracle) -> Measured:
    env = EnvSpec("catch", "", SIDE)
    agent = oracle_agent(broken)
    held = play_held_out(agent, env, seed=2, temperature=1.0)
    return measure(agent, held, torch_generator(0, "world"))


def findings(broken: Oracle) -> dict[str, Finding]:
    return {finding.part: finding for finding in judge(measured(broken).figures)}


def test_a_world_that_knows_the_rules_has_no_fault() -> None:
    found = findings(Oracle())
    assert list(found) == PARTS
    assert {finding.status for finding in found.values()} == {"good"}


def test_a_world_that_knows_the_rules_predicts_everything() -> None:
    figures = measured(Oracle()).figures
    assert figures["closed_loop"]["frames"]["mse"] == 0
    assert figures["closed_loop"]["tokens"]["accuracy"] == 1
    assert figures["closed_loop"]["tokens"]["changed_accuracy"] == 1
    assert figures["closed_loop"]["reward"]["recall"] == 1
    assert figures["closed_loop"]["termination"]["precision"] == 1
    assert figures["value"]["correlation"] == pytest.approx(1)
    assert figures["value"]["bias"] == pytest.approx(0, abs=1e-6)
    known = [error for error in figures["open_loop"]["frames"]["mse"] if error is not None]
    np.testing.assert_array_equal(known, 0)
    assert figures["open_loop"]["persistence"]["mse"][0] > 0


@pytest.mark.parametrize(
    ("part", "broken"),
    [
        ("tokenizer", Oracle(tokenizer=True)),
        ("dynamics", Oracle(dynamics=True)),
        ("dynamics", Oracle(actions=True)),
        ("dynamics", Oracle(posterior=True)),
        ("reward head", Oracle(reward=True)),
        ("termination head", Oracle(termination=True)),
        ("value", Oracle(value=True)),
        ("policy", Oracle(policy=True)),
    ],
)
def test_the_broken_part_is_named_first(part: str, broken: Oracle) -> None:
    found = findings(broken)
    fault = first_fault(list(found.values()))
    assert fault is not None
    # Bad actions also spoil the returns that the value expects.
    assert fault.part in ({part, "value"} if part == "policy" else {part})
    assert found[part].status == "fault"


@pytest.mark.parametrize(("marginal", "status"), [(0.505, "fault"), (0.6, "good")])
def test_a_policy_that_is_the_same_in_all_states_is_at_fault(marginal: float, status: str) -> None:
    figures = measured(Oracle()).figures
    known = {"entropy": 0.5, "marginal_entropy": marginal}
    found = judge({**figures, "policy": {**figures["policy"], **known}})[-1]
    assert (found.part, found.status) == ("policy", status)
    assert ("the same actions in all states" in found.sentence) == (status == "fault")


@pytest.mark.parametrize(("share", "status"), [(0.1, "fault"), (0.2, "good")])
def test_dreams_that_may_differ_by_chance_alone_ignore_actions(share: float, status: str) -> None:
    figures = measured(Oracle()).figures
    actions = {"horizon": 8, "share": share, "error": 0.06}
    found = judge({**figures, "actions": actions})[1]
    assert (found.part, found.status) == ("dynamics", status)
    assert ("ignores actions" in found.sentence) == (status == "fault")
    assert f"{100 * share:.3g} % of what differs between dreams of 8 steps" in found.sentence


def test_the_parts_before_the_broken_one_are_good() -> None:
    found = findings(Oracle(reward=True))
    assert [found[part].status for part in PARTS[:2]] == ["good", "good"]
    assert "recall 0 %" in found["reward head"].sentence
    assert "base rate is 14.3 %" in found["reward head"].sentence


def test_a_world_that_stands_still_gets_only_the_tokens_that_do() -> None:
    tokens = measured(Oracle(dynamics=True)).figures["closed_loop"]["tokens"]
    assert tokens["accuracy"] > 0.9
    assert tokens["changed_accuracy"] == 0
    assert "actions make no difference" in findings(Oracle(dynamics=True))["dynamics"].sentence
    assert "actions make no difference" not in findings(Oracle())["dynamics"].sentence


def test_a_world_that_tells_no_probabilities_is_measured_by_its_dreams() -> None:
    agent = oracle_agent(Oracle())
    agent.world = CatchRules(Oracle())
    held = play_held_out(agent, EnvSpec("catch", "", SIDE), seed=2, temperature=1.0)
    figures = measure(agent, held, torch_generator(0, "world")).figures
    assert figures["absent"]["tokens"] == "the world gives no probabilities of tokens"
    assert figures["closed_loop"]["reward"]["recall"] == 1
    assert first_fault(judge(figures)) is None


def test_dynamics_are_not_judged_behind_a_tokenizer_that_forgets_what_moves() -> None:
    found = findings(Oracle(tokenizer=True))
    assert found["dynamics"].status == "unknown"
    assert "loses what moves" in found["tokenizer"].sentence


def test_a_world_that_predicts_nothing_but_replay_overfits() -> None:
    def figures(broken: Oracle) -> Figures:
        agent, env = oracle_agent(broken), EnvSpec("catch", "", SIDE)
        held, replay = (play_held_out(agent, env, seed=seed, temperature=1.0) for seed in (2, 3))
        return measure(agent, held, torch_generator(0, "world"), replay).figures

    def sentences(figures: Figures) -> list[str]:
        return [finding.sentence for finding in judge(figures)[1:3]]

    ignorant = figures(Oracle(dynamics=True, reward=True))
    dynamics, reward = sentences(ignorant)
    assert "does not predict what moves" in dynamics
    assert "knows little of rewards" in reward
    dynamics, reward = sentences({**ignorant, "replay": figures(Oracle())["replay"]})
    assert "The dynamics overfits its replay" in dynamics
    assert "The reward head overfits the rewards of replay" in reward
    assert "on replay average precision 100 %" in reward


def with_rewards(real: list[float], predicted: list[float]) -> Finding:
    """The finding about a head that predicts these rewards."""
    figures = measured(Oracle()).figures
    scores = reward_scores(np.array(predicted), np.array(real))
    closed = {**figures["closed_loop"], "reward": scores}
    return judge({**figures, "closed_loop": closed})[PARTS.index("reward head")]


def test_dense_rewards_are_judged_by_their_variance() -> None:
    real = [0.1 * step for step in range(1, 11)]
    assert with_rewards(real, real).status == "good"
    constant = with_rewards(real, [0.55] * 10)
    assert constant.status == "fault"
    assert "0 % of the variance" in constant.sentence


def test_rewards_that_are_all_equal_say_nothing_about_the_head() -> None:
    assert with_rewards([1.0] * 10, [0.0] * 10).status == "unknown"


def test_terminations_that_are_expected_everywhere_end_dreams_early() -> None:
    sentence = findings(Oracle(termination=True))["termination head"].sentence
    assert "too early" in sentence
    assert "60 %" in sentence


def test_an_untrained_agent_has_a_faulty_tokenizer_and_a_uniform_policy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_out, "STEPS", 15)
    agent, env = fresh("step-vq-m")
    held = play_held_out(agent, env, seed=1, temperature=1.0)
    found = judge(measure(agent, held, torch_generator(0, "world")).figures)
    faults = [finding.part for finding in found if finding.status == "fault"]
    assert faults[0] == "tokenizer"
    assert "policy" in faults
