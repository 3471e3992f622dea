"""A pixel actor-critic in worlds small enough to be solved on paper."""

import dataclasses
from typing import Any

import pytest
import torch
from drawn_worlds import SHAPE, Chain, Signpost, rooms, segment_of, unreadable, walk_to_sign
from torch import Tensor

from tokenworlds.behaviours.pixel_actor_critic import Imagined, PixelActorCritic
from tokenworlds.core.trees import map_tensors, where_rows
from tokenworlds.core.types import ActionSpace, Dream, Segment
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
    agent: PixelActorCritic, world: Any, draw: Any, updates: int = 120, critic: float = 1.0
) -> None:
    random = generator()
    optimizer = torch.optim.Adam(agent.parameters(), lr=4e-3)
    for _ in range(updates):
        losses = agent.losses(world, draw(random), random)
        optimizer.zero_grad()
        losses.total({**SCALES, "critic": critic}).backward()
        optimizer.step()
        for follow in losses.after:
            follow()


def random_rooms(random: torch.Generator) -> Segment:
    return rooms(torch.randint(0, 4, (32,), generator=random))


def random_signs(random: torch.Generator) -> Segment:
    return walk_to_sign(torch.randint(0, 2, (32,), generator=random), 1)


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


def test_learns_with_a_value_in_bins() -> None:
    """Many bins pull hard on a small memory, so they count for less."""
    agent = behaviour(value="two-hot", recurrent=64)
    learn(agent, Chain(), random_rooms, critic=0.1)
    assert_chain_is_solved(agent, 0.1)


def test_remembers_a_sign_that_it_no_longer_sees() -> None:
    agent = behaviour()
    learn(agent, Signpost(), random_signs)
    sign = torch.tensor([0, 1])
    carry = agent.initial(2)
    for time in range(3):
        state = torch.stack([sign, torch.full_like(sign, time)], dim=-1)
        action, carry = agent.act(Signpost().view(state), carry, None, 0.0)
    assert torch.equal(action, sign)
    beside_it = walk_to_sign(torch.arange(64) % 2, 3)
    knows = agent.losses(Signpost(), beside_it, generator()).metrics["imagined_reward"]
    agent.config = dataclasses.replace(agent.config, burn_in=1)
    guesses = agent.losses(Signpost(), beside_it, generator()).metrics["imagined_reward"]
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


def showing(frame: Tensor) -> Dream:
    nothing = torch.zeros(len(frame))
    return Dream(unreadable(frame), nothing, nothing, lambda: frame)


def acted_through(agent: PixelActorCritic, segment: Segment) -> Any:
    """As in the real environment: padding does not exist, and episodes begin with nothing."""
    frames, carry = Chain().policy_frames(segment), agent.initial(len(segment.frame))
    for step in range(segment.first.shape[1] - 1):
        carry = where_rows(segment.first[:, step], agent.initial(len(frames)), carry)
        _, after = agent.act(showing(frames[:, step]), carry, generator())
        carry = where_rows(segment.mask[:, step], after, carry)
    return where_rows(segment.first[:, -1], agent.initial(len(frames)), carry)


@torch.no_grad()
def test_burning_in_is_acting_through_the_same_frames() -> None:
    """Row 0 goes on, 1 begins anew midway, 2 at the dream's own frame, 3 has padding before."""
    agent = behaviour()
    first = marked(4, 5, (1, 2), (2, 4), (3, 2))
    segment = noise(4, 5, first=first, mask=~marked(4, 5, (3, 0), (3, 1)))
    memory = agent.network.burn_in(agent.past(Chain(), segment), segment.first[:, -1])
    expected = acted_through(agent, segment)
    torch.testing.assert_close(memory.hidden, expected.hidden)
    torch.testing.assert_close(memory.cell, expected.cell)
    assert (memory.hidden[2] == 0).all()
    assert (memory.hidden[[0, 1, 3]].abs().amax(-1) > 0).all()


@torch.no_grad()
def test_no_more_than_the_burn_in_is_looked_at() -> None:
    agent = behaviour(burn_in=2)
    long = noise(3, 6)
    short = map_tensors(lambda leaf: leaf[:, 3:], long)
    opens = long.first[:, -1]
    ours = agent.network.burn_in(agent.past(Chain(), long), opens)
    assert agent.past(Chain(), long).frame.shape[1] == 2
    assert torch.equal(ours.hidden, agent.network.burn_in(agent.past(Chain(), short), opens).hidden)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("encoder", [SMALL.encoder, RESIDUAL], ids=["pooling", "residual"])
def test_a_fresh_copy_judges_as_the_network_itself_would(encoder: Any, steps: int) -> None:
    """The copy reads past and dream in one go, episode beginnings included."""
    agent = behaviour(critic_scale=1.0, encoder=encoder)
    segment = noise(3, steps, first=marked(3, steps, (1, steps - 1), (2, steps // 2)))
    past, opens = agent.past(Chain(), segment), segment.first[:, -1]
    memory = agent.network.burn_in(past, opens)
    dream = agent.imagine(Chain(), segment, memory, generator())
    by_copy = agent.judge(past, opens, dream)
    agent.target = None
    torch.testing.assert_close(by_copy, agent.judge(past, opens, dream))
    assert by_copy.shape == (agent.horizon + 1, 3)
    assert by_copy.std() > 0


def imagined(agent: PixelActorCritic, reward: list[float], terminated: list[float]) -> Imagined:
    """One row of a dream with these outcomes."""
    steps = len(reward)
    hidden = torch.randn(steps, 1, 16, generator=generator()).requires_grad_()
    frame = torch.zeros(steps + 1, 1, 3, 8, 8)
    action = torch.ones(steps, 1, dtype=torch.long)
    outcome = [torch.tensor(values).unsqueeze(-1) for values in (reward, terminated)]
    return Imagined(hidden, frame, action, outcome[0], outcome[1], agent.initial(1))


def test_returns_and_terms_by_hand() -> None:
    """Discount 0.5 and trace 0.5; R_3 is the value of the last state."""
    agent = behaviour(discount=0.5, return_lambda=0.5, critic_scale=1.0)
    dream = imagined(agent, [1.0, 0.0, 2.0], [0.0, 0.0, 0.0])
    judged = torch.tensor([[1.0], [2.0], [4.0], [8.0]])
    # R_2 = 2 + 0.5 * 8 = 6; R_1 = 0.5 * (2 + 3) = 2.5; R_0 = 1 + 0.5 * (1 + 1.25) = 2.125
    returns = torch.tensor([[2.125], [2.5], [6.0]])
    losses = agent.losses_of(dream, judged)
    policy, value = agent.policy(dream.hidden), agent.value(dream.hidden)
    expected = -policy.log_prob(dream.action) * (returns - judged[:-1])
    torch.testing.assert_close(losses.terms["actor"], expected)
    torch.testing.assert_close(losses.terms["critic"], (value.mean - returns).square())
    torch.testing.assert_close(losses.terms["entropy"], -policy.entropy())
    torch.testing.assert_close(losses.metrics["return"], returns.mean())


def test_after_an_imagined_ending_nothing_counts() -> None:
    agent = behaviour(critic_scale=1.0)
    judged = torch.ones(5, 1)
    terminations = [0.0, 1.0, 0.0, 0.0]
    ours = agent.losses_of(imagined(agent, [1.0, 1.0, 5.0, 5.0], terminations), judged)
    theirs = agent.losses_of(imagined(agent, [1.0, 1.0, -7.0, 0.0], terminations), judged)
    assert ours.masks["actor"].flatten().tolist() == [1.0, 1.0, 0.0, 0.0]
    torch.testing.assert_close(ours.means(), theirs.means())


def test_gradients_reach_the_network_through_time_but_not_the_copy() -> None:
    agent = behaviour(critic_scale=1.0)
    agent.losses(Chain(), rooms(torch.arange(4)), generator()).total(SCALES).backward()
    assert agent.target is not None
    assert all(p.grad is None and not p.requires_grad for p in agent.target.parameters())
    gradients = {name: p.grad for name, p in agent.network.named_parameters()}
    assert [name for name, grad in gradients.items() if grad is None or not grad.any()] == []


def test_gradients_flow_back_through_every_step_but_not_through_frames() -> None:
    agent = behaviour()
    memory = agent.initial(2)
    memory.cell.requires_grad_()
    dream = agent.imagine(Chain(), rooms(torch.tensor([0, 1])), memory, generator())
    (back,) = torch.autograd.grad(dream.hidden[-1].sum(), memory.cell)
    assert back.abs().amax(-1).min() > 0
    assert not dream.frame.requires_grad


def test_the_copy_follows_only_after_the_update() -> None:
    agent = behaviour(target_decay=0.75)
    assert agent.target is not None
    losses = agent.losses(Chain(), rooms(torch.arange(4)), generator())
    with torch.no_grad():
        agent.network.actor.bias.fill_(4.0)
        agent.target.actor.bias.fill_(0.0)
    for follow in losses.after:
        follow()
    assert agent.target.actor.bias.tolist() == [1.0, 1.0]


def test_the_critic_begins_at_zero_unless_told_otherwise() -> None:
    hidden = torch.randn(3, 16, generator=generator())
    assert (behaviour().value(hidden).mean == 0).all()
    assert (behaviour(critic_scale=1.0).value(hidden).mean != 0).all()
