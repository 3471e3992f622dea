"""What a collector does with a agent's choices: temperature, and a share of random actions."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from jaxtyping import Bool, UInt8
from torch import Generator, Tensor, nn

from tokenworlds.agent import Agent, AgentCarry
from tokenworlds.core.types import ActionSpace
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.envs.vector import VectorEnv
from tokenworlds.replay.store import ReplayStore
from tokenworlds.runs.recipe import Collection
from tokenworlds.training.collector import Collector

STREAMS = 16
STAY = 1


class Still(Agent):
    """A agent that never moves, and writes down how it was asked."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.action_space = ActionSpace(3)
        self.asked: list[tuple[Tensor, float]] = []

    def initial(self, batch: int) -> AgentCarry:
        return AgentCarry(None, (), torch.full((batch,), STAY))

    def act(
        self,
        frame: UInt8[Tensor | np.ndarray, "B H W C"],
        first: Bool[Tensor | np.ndarray, " B"],
        carry: AgentCarry | None = None,
        generator: Generator | None = None,
        temperature: float = 1.0,
    ) -> tuple[Tensor, AgentCarry]:
        assert carry is not None
        self.asked.append((carry.action, temperature))
        action = torch.full((len(frame),), STAY)
        return action, AgentCarry((), (), action)


@contextmanager
def collecting(folder: Path, **choices: float) -> Iterator[tuple[Collector, Still]]:
    agent = Still()
    with VectorEnv(EnvSpec("catch"), num_envs=STREAMS, seed=0) as envs:
        facts = {"frame_shape": envs.frame_shape, "action_space": envs.action_space}
        replay = ReplayStore(folder, num_envs=STREAMS, **facts)
        generator = torch.Generator().manual_seed(0)
        yield Collector(envs, replay, agent, generator, Collection(**choices)), agent


def test_without_a_random_share_nothing_is_drawn(tmp_path: Path) -> None:
    with collecting(tmp_path) as (collector, agent):
        before = collector.generator.get_state()
        collector.collect(30, random=False)
        assert torch.equal(collector.generator.get_state(), before)
        assert (collector.replay.records["action"] == STAY).all()
        assert {temperature for _, temperature in agent.asked} == {1.0}


def test_each_stream_strays_for_itself(tmp_path: Path) -> None:
    with collecting(tmp_path, random_share=0.3) as (collector, _):
        collector.collect(300, random=False)
        strayed = collector.replay.records["action"] != STAY
    # Two of three random actions are seen to be none of the agent's.
    assert strayed.mean() == pytest.approx(0.2, abs=0.02)
    # One coin for all would have all environments stray together, or none.
    assert strayed.mean(axis=0).std() == pytest.approx((0.2 * 0.8 / STREAMS) ** 0.5, rel=0.2)


def test_the_player_remembers_what_was_done(tmp_path: Path) -> None:
    with collecting(tmp_path, random_share=0.5, temperature=0.25) as (collector, agent):
        collector.collect(20, random=False)
        done = collector.replay.records["action"]
    remembered = torch.stack([action for action, _ in agent.asked], dim=1)
    assert torch.equal(remembered[:, 1:], torch.from_numpy(done[:, :-1].copy()))
    assert {temperature for _, temperature in agent.asked} == {0.25}


@pytest.mark.parametrize(
    ("choices", "said"),
    [({"random_share": 1.5}, "no share"), ({"temperature": -0.1}, "0 or more")],
)
def test_a_way_to_play_that_is_none(choices: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Collection(**choices)
