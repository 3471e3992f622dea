"""How a collector uses an agent's actions: temperature, and a share of random actions."""

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

ENVS = 16
STAY = 1


class Still(Agent):
    """An agent that never moves, and records its inputs."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.action_space = ActionSpace(3)
        self.calls: list[tuple[Tensor, float]] = []

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
        self.calls.append((carry.action, temperature))
        action = torch.full((len(frame),), STAY)
        return action, AgentCarry((), (), action)


@contextmanager
def collecting(folder: Path, **choices: float) -> Iterator[tuple[Collector, Still]]:
    agent = Still()
    with VectorEnv(EnvSpec("catch"), num_envs=ENVS, seed=0) as envs:
        dimensions = {"frame_shape": envs.frame_shape, "action_space": envs.action_space}
        replay = ReplayStore(folder, num_envs=ENVS, **dimensions)
        generator = torch.Generator().manual_seed(0)
        yield Collector(envs, replay, agent, generator, Collection(**choices)), agent


def test_without_a_random_share_nothing_is_sampled(tmp_path: Path) -> None:
    with collecting(tmp_path) as (collector, agent):
        before = collector.generator.get_state()
        collector.collect(30, random=False)
        assert torch.equal(collector.generator.get_state(), before)
        assert (collector.replay.records["action"] == STAY).all()
        assert {temperature for _, temperature in agent.calls} == {1.0}


def test_random_actions_are_independent_between_environments(tmp_path: Path) -> None:
    with collecting(tmp_path, random_share=0.3) as (collector, _):
        collector.collect(300, random=False)
        changed = collector.replay.records["action"] != STAY
    # Two of three random actions differ from the agent's.
    assert changed.mean() == pytest.approx(0.2, abs=0.02)
    # With one sample for all environments, all or none would change.
    assert changed.mean(axis=0).std() == pytest.approx((0.2 * 0.8 / ENVS) ** 0.5, rel=0.2)


def test_the_agent_remembers_executed_actions(tmp_path: Path) -> None:
    with collecting(tmp_path, random_share=0.5, temperature=0.25) as (collector, agent):
        collector.collect(20, random=False)
        executed = collector.replay.records["action"]
    remembered = torch.stack([action for action, _ in agent.calls], dim=1)
    assert torch.equal(remembered[:, 1:], torch.from_numpy(executed[:, :-1].copy()))
    assert {temperature for _, temperature in agent.calls} == {0.25}


@pytest.mark.parametrize(
    ("choices", "message"),
    [({"random_share": 1.5}, "it takes 0 to 1"), ({"temperature": -0.1}, "0 or more")],
)
def test_invalid_settings_are_rejected(choices: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Collection(**choices)
