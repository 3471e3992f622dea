"""PPO on what really happened: endings, truncations, padding and stacks that are not known."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from bandits import SCALES, SHAPE, Bandit, ToldBandit, generator, ppo, steps_of
from torch import Tensor

from tokenworlds.behaviours.ppo import PPO, look_back
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, Segment
from tokenworlds.nets.policy_networks import FrameNetwork
from tokenworlds.worlds.real import Real


def flags(*places: int, steps: int = 6) -> Tensor:
    found = torch.zeros(1, steps, dtype=torch.bool)
    found[0, list(places)] = True
    return found


def eventful(**fields: Tensor) -> Segment:
    """Step 1 ends an episode, step 3 is cut off, step 5 is only judged."""
    reward = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    told = {
        "first": flags(0, 2, 4),
        "terminated": flags(1),
        "truncated": flags(3),
        "reward": reward,
    }
    return steps_of(torch.zeros(1, 6, dtype=torch.long), **{**told, **fields})


def test_endings_stop_the_return_and_cutoffs_cut_the_trace() -> None:
    """All values are 1: surprises of 1 + 1/2 - 1, 2 - 1, 3 + 1/2 - 1, and 5 + 1/2 - 1."""
    agent = ppo(experience="real", return_lambda=1.0)
    experience = agent.gather(ToldBandit(), eventful(), None)
    assert experience.cut.flatten().tolist() == [False, False, False, True, False]
    assert experience.weight.flatten().tolist() == [1.0, 1.0, 1.0, 0.0, 1.0]
    advantage = agent.advantage(experience, torch.ones(6, 1))
    assert advantage.flatten().tolist() == [0.5 + 0.5 * 1, 1.0, 2.5, 0.0, 4.5]


def test_a_true_ending_at_the_time_limit_is_an_ending() -> None:
    experience = look_back(ToldBandit(), eventful(terminated=flags(1, 3)), "feature")
    assert not experience.cut.any()
    assert experience.weight.all()


def test_padding_counts_neither_itself_nor_as_what_followed() -> None:
    """Steps 0 and 5 are padding; nothing is known of what came of step 4."""
    seen = eventful(first=flags(1), terminated=flags(), truncated=flags(), mask=flags(1, 2, 3, 4))
    weight = look_back(ToldBandit(), seen, "feature").weight
    assert weight.flatten().tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]


def test_what_is_not_known_to_have_been_seen_does_not_count() -> None:
    seen = eventful()
    frame = seen.frame.clone()
    frame[0, 2] = 255
    experience = look_back(ToldBandit(), replace(seen, frame=frame), "feature")
    assert experience.weight.flatten().tolist() == [1.0, 1.0, 0.0, 0.0, 1.0]


def test_steps_that_do_not_count_have_no_bearing() -> None:
    agent = ppo(experience="real", minibatch=100)

    def gradient(reward: float) -> Tensor:
        seen = eventful()
        seen.reward[0, 3] = reward
        (losses, *_) = agent.losses(ToldBandit(), seen, generator())
        (found,) = torch.autograd.grad(losses.total(SCALES), agent.critic.weight)
        return found

    torch.testing.assert_close(gradient(4.0), gradient(1000.0))


def test_rewards_may_be_brought_down_to_their_signs() -> None:
    seen = eventful(reward=torch.tensor([[3.0, -0.5, 0.0, 1.0, -7.0, 9.0]]))
    experience = ppo(experience="real", sign_rewards=True).gather(ToldBandit(), seen, None)
    assert experience.reward.flatten().tolist() == [1.0, -1.0, 0.0, 1.0, -1.0]


def play(agent: PPO, random: torch.Generator) -> Segment:
    """Five steps of each of eight rows, all of them by the present policy."""
    state = torch.randint(0, 2, (8, 5), generator=random)
    view = Bandit().view(state.flatten())
    action = agent.act(view, (), random)[0].view(8, 5)
    return steps_of(state, action=action, reward=(action == state).float())


def test_learns_the_better_action_from_real_steps() -> None:
    agent, random = ppo(experience="real"), generator()
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
    for _ in range(60):
        for losses in agent.losses(ToldBandit(), play(agent, random), random):
            optimizer.zero_grad()
            losses.total(SCALES).backward()
            optimizer.step()
    assert agent.policy(agent.read(torch.eye(2))).mean.diagonal().min() > 0.8


def test_the_chances_recomputed_are_those_drawn_with() -> None:
    agent, random = ppo(experience="real"), generator()
    seen = play(agent, random)
    steps = agent.judge(agent.gather(ToldBandit(), seen, random))
    chances = agent.policy(agent.read(torch.eye(2))).mean
    state = seen.frame[:, :-1, 0, 0, 0].T.flatten().long()
    expected = chances[state, seen.action[:, :-1].T.flatten()]
    torch.testing.assert_close(steps.log_prob.exp(), expected)


def test_the_world_without_a_model_tells_its_stacks() -> None:
    """Of the first two steps the stacks of three are not known, unless an episode opens there."""
    facts: dict[str, Any] = {"frame_shape": SHAPE, "action_space": ActionSpace(2)}
    world = Real.Config(frames=3).build(**facts)
    network = FrameNetwork.Config(filters=(4,), kernels=(4,), strides=(4,), width=8)
    config = PPO.Config(experience="real", network=network)
    agent = config.build(feature_shape=world.feature_shape, **facts)
    for first, weight in ((flags(), [0, 0, 1, 1, 1]), (flags(0), [1] * 5)):
        seen = eventful(first=first, terminated=flags(), truncated=flags())
        assert agent.gather(world, seen, None).weight.flatten().tolist() == weight


def test_nothing_real_counts_as_imagined() -> None:
    assert ppo(experience="real").horizon == 0
    assert ppo(experience="dream").horizon == 4


def test_worlds_that_do_not_tell_features_are_named() -> None:
    with pytest.raises(UserError, match="not by Bandit"):
        next(ppo(experience="real").losses(Bandit(), eventful(), generator()))
    assert look_back(Bandit(), eventful(), "frame").seen.shape == (6, 1, 3, 8, 8)


def test_one_step_alone_is_refused() -> None:
    with pytest.raises(UserError, match="from two on"):
        look_back(ToldBandit(), steps_of(torch.zeros(1, 1, dtype=torch.long)), "feature")
