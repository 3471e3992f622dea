"""A pixel actor-critic in worlds small enough to solve on paper."""

import dataclasses
from typing import Any

import pytest
import torch
from frame_worlds import SHAPE, Chain, Signpost, frame_view, rooms, segment_of, walk_from_sign
from torch import Tensor

from tokenworlds.behaviours.imagination import Trajectory
from tokenworlds.behaviours.pixel_actor_critic import PixelActorCritic
from tokenworlds.core.trees import map_tensors, where_rows
from tokenworlds.core.types import ActionSpace, Segment
from tokenworlds.nets.pixel_encoders import PoolingEncoder, ResidualEncoder
from tokenworlds.nets.residual import FrameEncoder

SMALL = PixelActorCritic.Config(
    horizon=4,
    discount=0.9,
    burn_in=5,
    encoder=PoolingEncoder.Config(filters=(8,)),
    recurrent=16,
    value="scalar",
    target_decay=0.9,
)
RESIDUAL = ResidualEncoder.Config(
    layers=FrameEncoder.Config(width=4, latent=4, multipliers=(1, 2), halvings=(True, False))
)
SCALES = {"actor": 1.0, "entropy": 1e-3, "critic": 1.0}


def behaviour(**choices: Any) -> PixelActorCritic:
    torch.manual_seed(0)
    config = dataclasses.replace(SMALL, **choices)
    return config.build(feature_shape=(1,), frame_shape=SHAPE, action_space=ActionSpace(2))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def learn(
    agent: PixelActorCritic, world: Any, sample: Any, updates: int = 120, critic: float = 1.0
) -> None:
    random = generator()
    optimizer = torch.optim.Adam(agent.parameters(), lr=4e-3)
    for _ in range(updates):
        losses = agent.losses(world, sample(random), random)
        optimizer.zero_grad()
        losses.total({**SCALES, "critic": critic}).backward()
        optimizer.step()
        for follow in losses.after:
            follow()


def random_rooms(random: torch.Generator) -> Segment:
    return rooms(torch.randint(0, 4, (32,), generator=random))


def random_signs(random: torch.Generator) -> Segment:
    return walk_from_sign(torch.randint(0, 2, (32,), generator=random), 1)


def assert_chain_is_solved(agent: PixelActorCritic, tolerance: float) -> None:
    action, memory = agent.act(Chain().view(torch.arange(4)), agent.initial(4), None, 0.0)
    assert action.tolist() == [1, 0, 1, 0]
    expected = torch.tensor([0.9 ** (3 - room) for room in range(4)])
    value = agent.value(memory.hidden).mean.detach()
    torch.testing.assert_close(value, expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize(
    "choices",
    [{}, {"target_decay": None, "critic_scale": 1.0}, {"range_decay": 0.9}],
    ids=["slow-copy", "no-copy", "range"],
)
def test_learns_the_best_policy_and_its_values(choices: dict[str, Any]) -> None:
    agent = behaviour(**choices)
    learn(agent, Chain(), random_rooms)
    assert_chain_is_solved(agent, 0.08)


@pytest.mark.parametrize("bins", ["symlog", "symexp"])
def test_learns_with_a_two_hot_value(bins: str) -> None:
    """The loss over many bins has large gradients, so it gets a small weight."""
    agent = behaviour(value="two-hot", bins=bins, recurrent=64)
    learn(agent, Chain(), random_rooms, critic=0.1)
    assert_chain_is_solved(agent, 0.1)


def test_remembers_a_sign_that_is_no_longer_visible() -> None:
    agent = behaviour()
    learn(agent, Signpost(), random_signs)
    sign = torch.tensor([0, 1])
    carry = agent.initial(2)
    for time in range(3):
        state = torch.stack([sign, torch.full_like(sign, time)], dim=-1)
        action, carry = agent.act(Signpost().view(state), carry, None, 0.0)
    assert torch.equal(action, sign)
    after_sign = walk_from_sign(torch.arange(64) % 2, 3)
    knows = agent.losses(Signpost(), after_sign, generator()).metrics["imagined_reward"]
    agent.config = dataclasses.replace(agent.config, burn_in=1)
    guesses = agent.losses(Signpost(), after_sign, generator()).metrics["imagined_reward"]
    assert knows * agent.horizon > 0.8
    assert abs(guesses * agent.horizon) < 0.3


def noise(rows: int, steps: int, **flags: Tensor) -> Segment:
    frame = torch.randint(0, 256, (rows, steps, 8, 8, 3), generator=generator()).to(torch.uint8)
    return segment_of(frame, torch.zeros(rows, steps, dtype=torch.long), **flags)


def marked(rows: int, steps: int, *places: tuple[int, int]) -> Tensor:
    flags = torch.zeros(rows, steps, dtype=torch.bool)
    for place in places:
        flags[place] = True
    return flags


def act_through(agent: PixelActorCritic, segment: Segment) -> Any:
    """The memory from acting: padding is skipped, and episodes start with an empty memory."""
    frames, carry = Chain().policy_frames(segment), agent.initial(len(segment.frame))
    for step in range(segment.first.shape[1] - 1):
        carry = where_rows(segment.first[:, step], agent.initial(len(frames)), carry)
        _, after = agent.act(frame_view(frames[:, step]), carry, generator())
        carry = where_rows(segment.mask[:, step], after, carry)
    return where_rows(segment.first[:, -1], agent.initial(len(frames)), carry)


@torch.no_grad()
def test_burn_in_equals_acting_on_the_same_frames() -> None:
    """Row 1 starts an episode midway, 2 at the dream's first frame; 3 starts with padding."""
    agent = behaviour()
    first = marked(4, 5, (1, 2), (2, 4), (3, 2))
    segment = noise(4, 5, first=first, mask=~marked(4, 5, (3, 0), (3, 1)))
    memory = agent.network.burn_in(agent.past(Chain(), segment), segment.first[:, -1])
    expected = act_through(agent, segment)
    torch.testing.assert_close(memory.hidden, expected.hidden)
    torch.testing.assert_close(memory.cell, expected.cell)
    assert (memory.hidden[2] == 0).all()
    assert (memory.hidden[[0, 1, 3]].abs().amax(-1) > 0).all()


@torch.no_grad()
def test_frames_before_the_burn_in_are_not_read() -> None:
    agent = behaviour(burn_in=2)
    long = noise(3, 6)
    short = map_tensors(lambda leaf: leaf[:, 3:], long)
    starts = long.first[:, -1]
    ours = agent.network.burn_in(agent.past(Chain(), long), starts)
    assert agent.past(Chain(), long).frame.shape[1] == 2
    assert torch.equal(
        ours.hidden, agent.network.burn_in(agent.past(Chain(), short), starts).hidden
    )


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("encoder", [SMALL.encoder, RESIDUAL], ids=["pooling", "residual"])
def test_a_new_slow_copy_gives_the_values_of_the_network(encoder: Any, steps: int) -> None:
    """The copy reads past and dream in one pass, across the starts of episodes."""
    agent = behaviour(critic_scale=1.0, encoder=encoder)
    segment = noise(3, steps, first=marked(3, steps, (1, steps - 1), (2, steps // 2)))
    past, starts = agent.past(Chain(), segment), segment.first[:, -1]
    memory = agent.network.burn_in(past, starts)
    carry = Chain().start(segment, agent.horizon)
    dream, memories = agent.dream(Chain(), carry, memory, generator())
    hidden = torch.stack([each.hidden for each in memories])
    by_copy = agent.target_values(past, starts, dream, hidden, memories[-1])
    agent.target = None
    by_network = agent.target_values(past, starts, dream, hidden, memories[-1])
    torch.testing.assert_close(by_copy, by_network)
    assert by_copy.shape == (agent.horizon + 1, 3)
    assert by_copy.std() > 0


def dream_of(reward: list[float], terminated: list[float]) -> tuple[Trajectory, Tensor]:
    """One row of a dream with these outcomes, and its hidden states."""
    steps = len(reward)
    hidden = torch.randn(steps, 1, 16, generator=generator()).requires_grad_()
    frame = torch.zeros(steps + 1, 1, 3, 8, 8)
    action = torch.ones(steps, 1, dtype=torch.long)
    outcome = [torch.tensor(values).unsqueeze(-1) for values in (reward, terminated)]
    return Trajectory(frame, action, outcome[0], outcome[1]), hidden


def test_returns_and_terms_by_hand() -> None:
    """Discount and lambda are 0.5; R_3 is the value of the last state."""
    agent = behaviour(discount=0.5, return_lambda=0.5, critic_scale=1.0)
    dream, hidden = dream_of([1.0, 0.0, 2.0], [0.0, 0.0, 0.0])
    target = torch.tensor([[1.0], [2.0], [4.0], [8.0]])
    # R_2 = 2 + 0.5 * 8 = 6; R_1 = 0.5 * (2 + 3) = 2.5; R_0 = 1 + 0.5 * (1 + 1.25) = 2.125
    returns = torch.tensor([[2.125], [2.5], [6.0]])
    losses = agent.losses_of(dream, hidden, target)
    policy, value = agent.policy(hidden), agent.value(hidden)
    expected = -policy.log_prob(dream.action) * (returns - target[:-1])
    torch.testing.assert_close(losses.terms["actor"], expected)
    torch.testing.assert_close(losses.terms["critic"], (value.mean - returns).square())
    torch.testing.assert_close(losses.terms["entropy"], -policy.entropy())
    torch.testing.assert_close(losses.metrics["return"], returns.mean())


def test_steps_after_an_imagined_termination_do_not_count() -> None:
    agent = behaviour(critic_scale=1.0)
    target = torch.ones(5, 1)
    terminations = [0.0, 1.0, 0.0, 0.0]
    ours = agent.losses_of(*dream_of([1.0, 1.0, 5.0, 5.0], terminations), target)
    theirs = agent.losses_of(*dream_of([1.0, 1.0, -7.0, 0.0], terminations), target)
    assert ours.masks["actor"].flatten().tolist() == [1.0, 1.0, 0.0, 0.0]
    torch.testing.assert_close(ours.means(), theirs.means())


def test_gradients_reach_the_whole_network_but_not_the_slow_copy() -> None:
    agent = behaviour(critic_scale=1.0)
    agent.losses(Chain(), rooms(torch.arange(4)), generator()).total(SCALES).backward()
    assert agent.target is not None
    assert all(p.grad is None and not p.requires_grad for p in agent.target.parameters())
    gradients = {name: p.grad for name, p in agent.network.named_parameters()}
    assert [name for name, grad in gradients.items() if grad is None or not grad.any()] == []


def test_gradients_flow_through_all_memories_but_not_through_frames() -> None:
    agent = behaviour()
    memory = agent.initial(2)
    memory.cell.requires_grad_()
    dream, memories = agent.dream(Chain(), torch.tensor([0, 1]), memory, generator())
    (back,) = torch.autograd.grad(memories[-1].hidden.sum(), memory.cell)
    assert back.abs().amax(-1).min() > 0
    assert not dream.observed.requires_grad


def test_the_slow_copy_moves_only_after_the_update() -> None:
    agent = behaviour(target_decay=0.75)
    assert agent.target is not None
    losses = agent.losses(Chain(), rooms(torch.arange(4)), generator())
    with torch.no_grad():
        agent.network.actor.bias.fill_(4.0)
        agent.target.actor.bias.fill_(0.0)
    for follow in losses.after:
        follow()
    assert agent.target.actor.bias.tolist() == [1.0, 1.0]


def test_the_critic_starts_at_zero_unless_configured_otherwise() -> None:
    hidden = torch.randn(3, 16, generator=generator())
    assert (behaviour().value(hidden).mean == 0).all()
    assert (behaviour(critic_scale=1.0).value(hidden).mean != 0).all()
