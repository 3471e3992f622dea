"""PPO on real steps: termination, truncation, padding and incomplete frame stacks."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from bandits import SCALES, Bandit, DescribedBandit, generator, ppo, steps_of
from frame_worlds import SHAPE
from torch import Tensor

from tokenworlds.behaviours.ppo import PPO, real_steps
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, Segment
from tokenworlds.nets.policy_networks import FrameNetwork
from tokenworlds.worlds.real import Real


def flags(*places: int, steps: int = 6) -> Tensor:
    found = torch.zeros(1, steps, dtype=torch.bool)
    found[0, list(places)] = True
    return found


def eventful(**fields: Tensor) -> Segment:
    """Step 1 terminates, step 3 is truncated, step 5 only gives a value."""
    reward = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    events = {
        "first": flags(0, 2, 4),
        "terminated": flags(1),
        "truncated": flags(3),
        "reward": reward,
    }
    return steps_of(torch.zeros(1, 6, dtype=torch.long), **{**events, **fields})


def test_terminations_end_the_return_and_truncations_cut_it() -> None:
    """All values are 1: errors of 1 + 1/2 - 1, 2 - 1, 3 + 1/2 - 1, and 5 + 1/2 - 1."""
    agent = ppo(experience="real", return_lambda=1.0)
    experience = agent.gather(DescribedBandit(), eventful(), None)
    assert experience.cut.flatten().tolist() == [False, False, False, True, False]
    assert experience.weight.flatten().tolist() == [1.0, 1.0, 1.0, 0.0, 1.0]
    advantage = agent.advantage(experience, torch.ones(6, 1))
    assert advantage.flatten().tolist() == [0.5 + 0.5 * 1, 1.0, 2.5, 0.0, 4.5]


def test_a_termination_at_the_time_limit_is_a_termination() -> None:
    experience = real_steps(DescribedBandit(), eventful(terminated=flags(1, 3)), "feature")
    assert not experience.cut.any()
    assert experience.weight.all()


def test_padding_does_not_count_as_a_step_or_as_a_next_state() -> None:
    """Steps 0 and 5 are padding, so the state after step 4 is unknown."""
    segment = eventful(
        first=flags(1), terminated=flags(), truncated=flags(), mask=flags(1, 2, 3, 4)
    )
    weight = real_steps(DescribedBandit(), segment, "feature").weight
    assert weight.flatten().tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]


def test_steps_with_incomplete_features_do_not_count() -> None:
    segment = eventful()
    frame = segment.frame.clone()
    frame[0, 2] = 255
    experience = real_steps(DescribedBandit(), replace(segment, frame=frame), "feature")
    assert experience.weight.flatten().tolist() == [1.0, 1.0, 0.0, 0.0, 1.0]


def test_steps_that_do_not_count_give_no_gradient() -> None:
    agent = ppo(experience="real", minibatch=100)

    def gradient(reward: float) -> Tensor:
        segment = eventful()
        segment.reward[0, 3] = reward
        (losses, *_) = agent.losses(DescribedBandit(), segment, generator())
        (found,) = torch.autograd.grad(losses.total(SCALES), agent.critic.weight)
        return found

    torch.testing.assert_close(gradient(4.0), gradient(1000.0))


def test_rewards_can_be_replaced_by_their_signs() -> None:
    segment = eventful(reward=torch.tensor([[3.0, -0.5, 0.0, 1.0, -7.0, 9.0]]))
    experience = ppo(experience="real", sign_rewards=True).gather(DescribedBandit(), segment, None)
    assert experience.reward.flatten().tolist() == [1.0, -1.0, 0.0, 1.0, -1.0]


def play(agent: PPO, random: torch.Generator) -> Segment:
    """Five steps in each of eight rows, all with the present policy."""
    state = torch.randint(0, 2, (8, 5), generator=random)
    view = Bandit().view(state.flatten())
    action = agent.act(view, (), random)[0].view(8, 5)
    return steps_of(state, action=action, reward=(action == state).float())


def test_learns_the_better_action_from_real_steps() -> None:
    agent, random = ppo(experience="real"), generator()
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
    for _ in range(60):
        for losses in agent.losses(DescribedBandit(), play(agent, random), random):
            optimizer.zero_grad()
            losses.total(SCALES).backward()
            optimizer.step()
    assert agent.policy(agent.encode(torch.eye(2))).mean.diagonal().min() > 0.8


def test_recomputed_probabilities_are_those_that_sampled_the_actions() -> None:
    agent, random = ppo(experience="real"), generator()
    segment = play(agent, random)
    steps = agent.prepare(agent.gather(DescribedBandit(), segment, random))
    probabilities = agent.policy(agent.encode(torch.eye(2))).mean
    state = segment.frame[:, :-1, 0, 0, 0].T.flatten().long()
    expected = probabilities[state, segment.action[:, :-1].T.flatten()]
    torch.testing.assert_close(steps.log_prob.exp(), expected)


def test_the_world_without_a_model_gives_its_frame_stacks() -> None:
    """The first two stacks of three are incomplete, unless an episode starts there."""
    dimensions: dict[str, Any] = {"frame_shape": SHAPE, "action_space": ActionSpace(2)}
    world = Real.Config(frames=3).build(**dimensions)
    network = FrameNetwork.Config(filters=(4,), kernels=(4,), strides=(4,), width=8)
    config = PPO.Config(experience="real", network=network)
    agent = config.build(feature_shape=world.feature_shape, **dimensions)
    for first, weight in ((flags(), [0, 0, 1, 1, 1]), (flags(0), [1] * 5)):
        segment = eventful(first=first, terminated=flags(), truncated=flags())
        assert agent.gather(world, segment, None).weight.flatten().tolist() == weight


def test_real_steps_do_not_count_as_imagined() -> None:
    assert ppo(experience="real").horizon == 0
    assert ppo(experience="dream").horizon == 4


def test_a_world_without_features_of_real_steps_is_named() -> None:
    with pytest.raises(UserError, match="Bandit does not"):
        next(ppo(experience="real").losses(Bandit(), eventful(), generator()))
    assert real_steps(Bandit(), eventful(), "frame").observed.shape == (6, 1, 3, 8, 8)


def test_a_single_step_is_rejected() -> None:
    with pytest.raises(UserError, match="two steps or more"):
        real_steps(DescribedBandit(), steps_of(torch.zeros(1, 1, dtype=torch.long)), "feature")
