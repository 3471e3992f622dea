"""Actor and critic in a world small enough to solve on paper."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from frame_worlds import SHAPE, SolvedWorld, segment_of
from torch import Generator, Tensor
from torch.nn import functional

from tokenworlds.behaviours.latent_actor_critic import LatentActorCritic
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, Outcome, Segment, View
from tokenworlds.nets.distributions import Bins, TwoHot

HORIZON = 5


class Chain(SolvedWorld):
    """Five rooms in a row. Action 1 moves on, 0 stays; leaving the last room pays 1 and terminates.

    With a discount of 0.9 the best value of room i is 0.9 ** (4 - i).
    """

    feature_shape: tuple[int, ...] = (5,)

    def view(self, carry: Tensor) -> View:
        return View(lambda: functional.one_hot(carry, 5).float(), no_frame)

    def start(self, segment: Segment, steps: int) -> Tensor:
        """The room whose number is the last action."""
        return segment.action[:, -1]

    def step(
        self, carry: Tensor, action: Tensor, generator: Generator | None = None
    ) -> tuple[Tensor, Outcome]:
        leaves = (carry == 4) & (action == 1)
        room = torch.where(leaves, carry, (carry + action).clamp(max=4))
        return room, Outcome(leaves.float(), leaves.float())


def no_frame() -> Tensor:
    raise AssertionError("no frame is read")


def behaviour(**choices: Any) -> LatentActorCritic:
    torch.manual_seed(0)
    config = LatentActorCritic.Config(
        horizon=HORIZON, discount=0.9, actor=(32,), critic=(32,), slow_decay=0.9
    )
    config = replace(config, **choices)
    return config.build(feature_shape=(5,), frame_shape=SHAPE, action_space=ActionSpace(2))


def rooms(batch: int, generator: Generator) -> Tensor:
    return torch.randint(0, 5, (batch,), generator=generator)


def start_in(room: Tensor) -> Segment:
    frame = torch.zeros(len(room), 1, 8, 8, 3, dtype=torch.uint8)
    return segment_of(frame, room[:, None])


def learn(agent: LatentActorCritic, updates: int, entropy: float = 1e-3) -> None:
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
    scales = {"actor": 1.0, "entropy": entropy, "critic": 1.0, "slow_critic": 1.0}
    for _ in range(updates):
        losses = agent.losses(Chain(), start_in(rooms(64, generator)), generator)
        optimizer.zero_grad()
        losses.total(scales).backward()
        optimizer.step()
        for follow in losses.after:
            follow()


@pytest.mark.parametrize("bins", ["symlog", "symexp"])
def test_learns_the_best_policy_and_its_values(bins: Bins) -> None:
    agent = behaviour(bins=bins)
    learn(agent, 300)
    features = torch.eye(5)
    assert agent.policy(features).mode.tolist() == [1] * 5
    values = TwoHot(agent.critic(features), bins).mean
    expected = torch.tensor([0.9 ** (4 - room) for room in range(5)])
    torch.testing.assert_close(values, expected, atol=0.05, rtol=0)


def test_the_entropy_term_keeps_the_policy_random() -> None:
    entropies = []
    for entropy in (1.0, 0.0):
        agent = behaviour()
        learn(agent, 100, entropy=entropy)
        entropies.append(agent.policy(torch.eye(5)).entropy())
    assert (entropies[0] > entropies[1]).all()


class Flatterer(Chain):
    """Every imagined step pays 1; real ones pay nothing."""

    def states(self, segment: Segment, steps: int) -> Tensor:
        return segment.action.flatten()

    def step(
        self, carry: Tensor, action: Tensor, generator: Generator | None = None
    ) -> tuple[Tensor, Outcome]:
        return carry, Outcome(torch.ones(len(carry)), torch.zeros(len(carry)))


def test_dreams_start_from_every_state_and_real_rewards_correct_their_promises() -> None:
    room = torch.arange(5).repeat(4, 2)
    segment = segment_of(torch.zeros(4, 10, 8, 8, 3, dtype=torch.uint8), room)
    values = []
    for starts in ("last", "every"):
        agent, generator = behaviour(starts=starts), torch.Generator().manual_seed(0)
        optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
        for _ in range(200):
            losses = agent.losses(Flatterer(), segment, generator)
            assert losses.terms["actor"].shape == (HORIZON, 4 if starts == "last" else 40)
            optimizer.zero_grad()
            losses.total({"replay_critic": 10.0} if starts == "every" else {}).backward()
            optimizer.step()
            for follow in losses.after:
                follow()
        values.append(TwoHot(agent.critic(torch.eye(5)), "symlog").mean[4].item())
    assert values[0] > 5
    assert values[1] < 0.6 * values[0]


def test_a_world_without_all_states_is_refused_in_one_sentence() -> None:
    agent = behaviour(starts="every")
    with pytest.raises(UserError, match="chain does not: take starts=last"):
        agent.losses(Chain(), start_in(torch.tensor([1])), None)


def test_a_dream_aligns_actions_with_their_outcomes() -> None:
    agent = behaviour()
    start = torch.tensor([4, 0, 2])
    dream = agent.dream(Chain(), start, torch.Generator().manual_seed(0))
    assert isinstance(dream.observed, Tensor)
    assert dream.observed.shape == (HORIZON + 1, 3, 5)
    room = dream.observed.argmax(-1)
    assert torch.equal(room[0], start)
    for step in range(HORIZON):
        left = (room[step] == 4) & (dream.action[step] == 1)
        assert torch.equal(dream.reward[step], left.float())
        moved = torch.where(left, room[step], (room[step] + dream.action[step]).clamp(max=4))
        assert torch.equal(room[step + 1], moved)


def test_steps_after_an_imagined_termination_have_no_weight() -> None:
    agent = behaviour()
    start = torch.full((8,), 4)
    dream = agent.dream(Chain(), start, torch.Generator().manual_seed(0))
    weight = agent.losses_of(dream).masks["actor"]
    for row in range(8):
        ended = dream.terminated[:, row].nonzero()
        if len(ended):
            assert weight[int(ended[0]) + 1 :, row].sum() == 0
            assert weight[: int(ended[0]) + 1, row].min() == 1


def test_the_generator_determines_the_dream() -> None:
    agent, start = behaviour(), torch.zeros(16, dtype=torch.long)
    dreams = [
        agent.dream(Chain(), start, torch.Generator().manual_seed(seed)).action
        for seed in (0, 0, 1)
    ]
    assert torch.equal(dreams[0], dreams[1])
    assert not torch.equal(dreams[0], dreams[2])


def test_temperature_zero_takes_the_most_probable_action() -> None:
    agent = behaviour()
    learn(agent, 50)
    view = Chain().view(torch.arange(5))
    action, _ = agent.act(view, agent.initial(5), None, temperature=0.0)
    assert torch.equal(action, agent.policy(view.feature).mode)


@pytest.mark.parametrize("size", [1, 3])
def test_continuous_actions_stay_in_bounds(size: int) -> None:
    torch.manual_seed(0)
    space = ActionSpace(size, discrete=False)
    agent = LatentActorCritic.Config(actor=(8,), critic=(8,)).build(
        feature_shape=(5,), frame_shape=SHAPE, action_space=space
    )
    view = Chain().view(torch.arange(5).repeat(200))
    action, _ = agent.act(view, agent.initial(1000), torch.Generator().manual_seed(0))
    assert action.shape == (1000, size)
    assert action.abs().max() <= 1
