"""Actor and critic in worlds small enough to be solved on paper."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from tokenworlds.behaviours.imagination import imagine
from tokenworlds.behaviours.latent_actor_critic import LatentActorCritic
from tokenworlds.core.types import ActionSpace, Dream, FrameShape, Segment
from tokenworlds.nets.distributions import TwoHot

HORIZON, SHAPE = 5, FrameShape(8, 8)


class Chain:
    """Five rooms in a row. Action 1 goes on, action 0 stays; leaving the last room pays 1 and ends.

    With a discount of 0.9 the best value of room i is 0.9 ** (4 - i).
    """

    feature_shape: tuple[int, ...] = (5,)

    def view(self, carry: Tensor) -> Any:
        nothing = torch.zeros(len(carry))
        return Dream(lambda: self.feature(carry), nothing, nothing, blank(carry))

    def feature(self, room: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(room, 5).float()

    def step(
        self, carry: Tensor, action: Tensor, generator: Generator | None = None
    ) -> tuple[Tensor, Dream]:
        leaves = (carry == 4) & (action == 1)
        room = torch.where(leaves, carry, (carry + action).clamp(max=4))
        outcome = leaves.float()
        return room, Dream(lambda: self.feature(room), outcome, outcome, blank(room))

    def parts(self) -> Any:
        raise AssertionError("never learned")

    def seen(self, segment: Segment) -> Tensor:
        raise AssertionError("never looked at")

    def recode(self, segment: Segment) -> None:
        raise AssertionError("has no codes")

    def observe(self, *_: Any) -> Tensor:
        raise AssertionError("never observed")

    def start(self, segment: Segment, steps: int) -> Tensor:
        """The room whose number is the last action."""
        return segment.action[:, -1]


def blank(room: Tensor) -> Callable[[], Tensor]:
    """Nobody looks at a chain."""
    return lambda: torch.zeros(len(room), 3, 8, 8)


def behaviour(**choices: Any) -> LatentActorCritic:
    torch.manual_seed(0)
    config = LatentActorCritic.Config(
        horizon=HORIZON, discount=0.9, actor=(32,), critic=(32,), slow_decay=0.9
    )
    config = replace(config, **choices)
    return config.build(feature_shape=(5,), frame_shape=SHAPE, action_space=ActionSpace(2))


def rooms(batch: int, generator: Generator) -> Tensor:
    return torch.randint(0, 5, (batch,), generator=generator)


def begin_in(room: Tensor) -> Segment:
    nothing = torch.zeros(len(room), 1, dtype=torch.bool)
    frame = torch.zeros(len(room), 1, 8, 8, 3, dtype=torch.uint8)
    flags = {"first": nothing, "terminated": nothing, "truncated": nothing, "mask": ~nothing}
    return Segment(frame=frame, action=room[:, None], reward=nothing.float(), **flags)


def learn(agent: LatentActorCritic, updates: int, entropy: float = 1e-3) -> None:
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
    scales = {"actor": 1.0, "entropy": entropy, "critic": 1.0, "slow_critic": 1.0}
    for _ in range(updates):
        losses = agent.losses(Chain(), begin_in(rooms(64, generator)), generator)
        optimizer.zero_grad()
        losses.total(scales).backward()
        optimizer.step()
        for follow in losses.after:
            follow()


def test_learns_the_best_policy_and_its_values() -> None:
    agent = behaviour()
    learn(agent, 300)
    features = torch.eye(5)
    assert agent.policy(features).mode.tolist() == [1] * 5
    values = TwoHot(agent.critic(features)).mean
    expected = torch.tensor([0.9 ** (4 - room) for room in range(5)])
    torch.testing.assert_close(values, expected, atol=0.05, rtol=0)


def test_entropy_keeps_the_policy_open() -> None:
    open_minded, settled = behaviour(), behaviour()
    learn(open_minded, 100, entropy=1.0)
    learn(settled, 100, entropy=0.0)
    features = torch.eye(5)
    ours, theirs = open_minded.policy(features).entropy(), settled.policy(features).entropy()
    assert (ours > theirs).all()


def test_a_rollout_lines_up_actions_with_what_came_of_them() -> None:
    agent = behaviour()
    start = torch.tensor([4, 0, 2])
    rollout = imagine(Chain(), agent, start, HORIZON, torch.Generator().manual_seed(0))
    assert isinstance(rollout.feature, Tensor)
    assert rollout.feature.shape == (HORIZON + 1, 3, 5)
    room = rollout.feature.argmax(-1)
    assert torch.equal(room[0], start)
    for step in range(HORIZON):
        left = (room[step] == 4) & (rollout.action[step] == 1)
        assert torch.equal(rollout.reward[step], left.float())
        moved = torch.where(left, room[step], (room[step] + rollout.action[step]).clamp(max=4))
        assert torch.equal(room[step + 1], moved)


def test_steps_after_an_imagined_ending_carry_no_weight() -> None:
    agent = behaviour()
    start = torch.full((8,), 4)
    rollout = imagine(Chain(), agent, start, HORIZON, torch.Generator().manual_seed(0))
    weight = agent.losses_of(rollout).masks["actor"]
    for row in range(8):
        ended = rollout.terminated[:, row].nonzero()
        if len(ended):
            assert weight[int(ended[0]) + 1 :, row].sum() == 0
            assert weight[: int(ended[0]) + 1, row].min() == 1


def test_the_same_generator_dreams_the_same_dream() -> None:
    agent, start = behaviour(), torch.zeros(16, dtype=torch.long)
    dreams = [
        imagine(Chain(), agent, start, HORIZON, torch.Generator().manual_seed(seed)).action
        for seed in (0, 0, 1)
    ]
    assert torch.equal(dreams[0], dreams[1])
    assert not torch.equal(dreams[0], dreams[2])


def test_temperature_zero_takes_the_likeliest_action() -> None:
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
