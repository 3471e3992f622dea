"""PPO in dreams small enough to check on paper."""

import dataclasses
from itertools import chain
from typing import Any

import pytest
import torch
from bandits import SCALES, Bandit, generator, ppo, ppo_for, steps_of
from frame_worlds import Chain, rooms
from torch import Tensor

from tokenworlds.behaviours.ppo import PPO, Batch, Experience
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, FrameShape, Losses
from tokenworlds.nets.policy_networks import FrameNetwork, GridNetwork

SMALL_FRAMES = FrameNetwork.Config(filters=(8,), kernels=(4,), strides=(2,), width=16)


def begin(rows: int = 16) -> Any:
    return steps_of((torch.arange(rows) % 2).unsqueeze(1))


def learn(agent: PPO, updates: int, seed: int = 0) -> None:
    random = generator(seed)
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
    for _ in range(updates):
        for losses in agent.losses(Bandit(), begin(), random):
            optimizer.zero_grad()
            losses.total(SCALES).backward()
            optimizer.step()


def test_learns_the_better_action_and_its_value() -> None:
    """Always right, its return is 1 + 1/2 + 1/4 + ... = 2."""
    agent = ppo(value_clip=None)
    learn(agent, 40)
    hidden = agent.encode(torch.eye(2))
    assert agent.policy(hidden).mean.diagonal().min() > 0.9
    torch.testing.assert_close(agent.value(hidden), torch.full((2,), 2.0), atol=0.2, rtol=0)


def test_the_generator_determines_the_update() -> None:
    agents = [ppo() for _ in range(3)]
    for agent, seed in zip(agents, (0, 0, 1), strict=True):
        learn(agent, 2, seed)
    ours, again, others = (agent.actor.weight for agent in agents)
    assert torch.equal(ours, again)
    assert not torch.equal(ours, others)


def test_parameter_counts_are_those_of_the_paper() -> None:
    for actions, expected in ((3, 1_295_876), (18, 1_303_571)):
        dimensions = {"frame_shape": FrameShape(96, 96, 1), "action_space": ActionSpace(actions)}
        agent = PPO.Config().build(feature_shape=(32, 6, 6), **dimensions)
        assert sum(p.numel() for p in agent.parameters()) == expected


def test_the_first_minibatch_gives_the_plain_policy_gradient() -> None:
    agent = ppo(minibatch=1000)
    (losses, *_) = agent.losses(Bandit(), begin(), generator())
    assert losses.metrics["clip_fraction"] == 0
    torch.testing.assert_close(losses.metrics["approximate_kl"], torch.tensor(0.0))
    ours = torch.autograd.grad(losses.means()["policy"], agent.actor.weight)[0]
    steps = agent.prepare(agent.gather(Bandit(), begin(), generator()))
    advantage = (steps.advantage - steps.advantage.mean()) / steps.advantage.std()
    log_prob = agent.policy(agent.encode(steps.observed)).log_prob(steps.action)
    plain = torch.autograd.grad(-(log_prob * advantage).mean(), agent.actor.weight)[0]
    torch.testing.assert_close(ours, plain)


def batch_of(probability: float, value: float, advantage: list[float]) -> Batch:
    """Steps in state 0 with action 1, with this probability and value before the update."""
    rows = len(advantage)
    observed = torch.tensor([[1.0, 0.0]]).repeat(rows, 1)
    log_prob = torch.full((rows,), probability).log()
    values, one = torch.full((rows,), value), torch.ones(rows)
    return Batch(observed, one.long(), log_prob, values, torch.tensor(advantage), one)


def test_terms_by_hand() -> None:
    """Probabilities go from 0.4 to 0.5, a ratio of 1.25; the value from 2 to 1.

    Advantages of 0 and 2 normalise to -1 and 1 over the root of 2; the targets are 2 and 4.
    """
    agent = ppo(clip=0.1, value_clip=0.25)
    with torch.no_grad():
        for parameter in (agent.actor.weight, agent.actor.bias, agent.critic.weight):
            parameter.zero_()
        agent.critic.bias.fill_(1.0)
    losses = agent.losses_of(batch_of(0.4, 2.0, [0.0, 2.0]))
    root = 2**-0.5
    expected = {
        "policy": [1.25 * root, -1.1 * root],
        "value": [0.5 * (1.0 - 2.0) ** 2, 0.5 * (1.0 - 4.0) ** 2],
        "entropy": [-torch.tensor(2.0).log().item()] * 2,
    }
    for name, column in expected.items():
        torch.testing.assert_close(losses.terms[name], torch.tensor(column).unsqueeze(-1))
    assert losses.metrics["clip_fraction"] == 1
    assert losses.metrics["value_error"] == 2


def test_every_epoch_visits_all_steps_in_a_new_order() -> None:
    agent = ppo(epochs=2, minibatch=6)
    numbers: list[list[float]] = []

    def record(steps: Batch) -> Losses:
        numbers.append(steps.advantage.tolist())
        return Losses({}, {})

    experience = agent.gather(Bandit(), begin(), generator())
    varied = dataclasses.replace(experience, reward=torch.randn(4, 16, generator=generator()))
    agent.gather = lambda *_: varied  # type: ignore[method-assign]
    agent.losses_of = record  # type: ignore[method-assign]
    assert len(list(agent.losses(Bandit(), begin(), generator()))) == len(numbers) == 22
    assert [len(batch) for batch in numbers] == [*[6] * 10, 4] * 2
    first, second = (list(chain(*numbers[at : at + 11])) for at in (0, 11))
    assert sorted(first) == sorted(second)
    assert len(set(first)) == 64
    assert first != second


def outcome(reward: list[float], terminated: list[float]) -> Experience:
    columns = [torch.tensor(values).unsqueeze(-1) for values in (reward, terminated)]
    no = torch.zeros_like(columns[0])
    observed = torch.zeros(len(reward) + 1, 1, 2)
    return Experience(observed, no.long(), columns[0], columns[1], no.bool(), torch.ones_like(no))


@pytest.mark.parametrize(("bootstraps", "expected"), [(True, [4.0, 6.0]), (False, [1.5, 1.0])])
def test_without_bootstraps_the_horizon_counts_as_terminated(
    bootstraps: bool, expected: list[float]
) -> None:
    agent = ppo(return_lambda=1.0, bootstraps=bootstraps)
    value = torch.tensor([[0.0], [0.0], [10.0]])
    found = agent.advantage(outcome([1.0, 1.0], [0.0, 0.0]), value)
    assert found.flatten().tolist() == expected


def ppo_on_frames(**choices: Any) -> PPO:
    return ppo(looks_at="frame", network=SMALL_FRAMES, horizon=5, **choices)


def test_steps_after_an_imagined_termination_have_no_weight() -> None:
    agent = ppo_on_frames()
    experience = agent.gather(Chain(), rooms(torch.full((16,), 3)), generator())
    ended = experience.terminated.cumsum(0) - experience.terminated
    assert ended.any()
    assert torch.equal(experience.weight, (ended == 0).float())


def test_a_policy_on_frames_does_not_read_features() -> None:
    """The features of this world are NaN."""
    agent = ppo_on_frames(discount=0.9)
    random, optimizer = generator(), torch.optim.Adam(agent.parameters(), lr=1e-2)
    for _ in range(40):
        start = rooms(torch.randint(0, 4, (32,), generator=random))
        for losses in agent.losses(Chain(), start, random):
            optimizer.zero_grad()
            losses.total(SCALES).backward()
            optimizer.step()
    action, _ = agent.act(Chain().view(torch.arange(4)), agent.initial(4), None, 0.0)
    assert action.tolist() == [1, 0, 1, 0]


def test_continuous_actions_give_gradients() -> None:
    agent = ppo_for(ActionSpace(2, discrete=False))

    def act_on(rows: int) -> Tensor:
        view = Bandit().view(torch.zeros(rows, dtype=torch.long))
        return agent.act(view, (), generator())[0]

    assert act_on(500).abs().max() <= 1
    observed = torch.eye(2)
    nothing = torch.zeros(2)
    steps = Batch(observed, torch.zeros(2, 2), nothing, nothing, nothing, torch.ones(2))
    agent.losses_of(steps).total(SCALES).backward()
    assert agent.actor.weight.grad is not None
    assert agent.actor.weight.grad.any()


@pytest.mark.parametrize("choice", ["horizon", "epochs", "minibatch"])
def test_counts_below_one_are_rejected(choice: str) -> None:
    with pytest.raises(UserError, match=f"behaviour.{choice} takes 1 or more, not 0"):
        ppo(**{choice: 0})


def test_features_that_are_neither_vectors_nor_maps_are_rejected() -> None:
    dimensions = {"frame_shape": FrameShape(8, 8), "action_space": ActionSpace(2)}
    with pytest.raises(UserError, match=r"not features of shape \(2, 3\)"):
        PPO.Config(network=GridNetwork.Config()).build(feature_shape=(2, 3), **dimensions)
