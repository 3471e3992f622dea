"""The API of a loaded agent, on a short training run."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tokenworlds import Agent
from tokenworlds.cli import main
from tokenworlds.core.types import Segment
from tokenworlds.envs.toys import Catch

TINY = (
    "num_envs=2",
    "schedule.warm_up=64",
    "learning.world.batch=2",
    "learning.behaviour.batch=4",
    "evaluation.final_episodes=2",
)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    run = tmp_path_factory.mktemp("runs") / "run"
    sets = [word for choice in TINY for word in ("--set", choice)]
    assert main(["train", "--steps", "96", "--run", str(run), "--threads", "1", *sets]) == 0
    return Agent.load(run)


def test_it_plays_a_whole_game(agent: Agent) -> None:
    env, carry = Catch(), None
    frame, first, over = env.reset(0), True, False
    while not over:
        action, carry = agent.act(frame[np.newaxis], np.array([first]), carry)
        step = env.step(action[0].numpy())
        frame, first, over = step.frame, step.terminated, step.over
    assert step.reward in (-1.0, 1.0)


def segment() -> Segment:
    env = Catch()
    frames = [env.reset(0), *(env.step(1).frame for _ in range(3))]
    flags = torch.zeros(1, 4, dtype=torch.bool)
    first = flags.clone()
    first[0, 0] = True
    stay = torch.ones(1, 4, dtype=torch.long)
    seen = torch.from_numpy(np.stack(frames)).unsqueeze(0)
    return Segment(seen, first, stay, torch.zeros(1, 4), flags, flags, ~flags)


def test_it_imagines_with_its_own_actions_or_given_ones(agent: Agent) -> None:
    own = list(agent.imagine(segment(), steps=3))
    given = list(agent.imagine(segment(), steps=3, actions=torch.ones(1, 3, dtype=torch.long)))
    assert len(own) == len(given) == 3
    for step in own:
        assert step.after.frame.shape == (1, 3, 64, 64)
        assert 0 <= step.outcome.terminated.item() <= 1


def test_a_saved_agent_acts_and_imagines_like_the_original(agent: Agent, tmp_path: Path) -> None:
    copy = Agent.load(agent.save(tmp_path / "agent"))
    assert copy.recipe == agent.recipe
    frames, first = segment().frame[:, 0], torch.ones(1, dtype=torch.bool)
    ours, theirs = (
        each.act(frames, first, generator=torch.Generator().manual_seed(0))[0]
        for each in (agent, copy)
    )
    assert torch.equal(ours, theirs)
    dreams = [
        list(each.imagine(segment(), 3, generator=torch.Generator().manual_seed(0)))
        for each in (agent, copy)
    ]
    for one, other in zip(*dreams, strict=True):
        assert torch.equal(one.after.feature, other.after.feature)
