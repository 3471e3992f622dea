"""The estimate before a run: it sees all work, and the run does not notice it."""

import pytest
import torch

from tokenworlds.agent import Agent
from tokenworlds.core.progress import Progress
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.estimate import Estimate, duration, estimate, sentence, size
from tokenworlds.training.throughput import Throughput

GOAL = Progress(2000, {"agent": 1000})


def spec_of(recipe: str) -> RunSpec:
    found = load(recipe, "nano", "catch").recipe
    env = EnvSpec("catch", size=found.resolution)
    return RunSpec(recipe_name=recipe, size="nano", recipe=found, env=env, seed=0, threads=1)


def test_an_estimate_counts_every_update_and_step_and_changes_nothing() -> None:
    spec = spec_of("dreamer-v3")
    agent = Agent.build(spec.recipe, FrameShape(64, 64, 3), ActionSpace(3, discrete=True))
    weights = {name: each.clone() for name, each in agent.state_dict().items()}
    before = torch.get_rng_state()
    found = estimate(agent, spec, GOAL)
    assert found is not None
    expected = 2000 * found.rates["agent_steps"] + 1000 * found.rates["agent_updates"]
    assert found.seconds == pytest.approx(expected)
    parameters = sum(each.numel() for each in agent.parameters())
    replay = 2000 * 64 * 64 * 3
    # Weights and two moments in three checkpoints, and the weights of the best.
    assert found.disk > replay + 4 * parameters * (3 * 3 + 1) * 0.9
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(agent.state_dict()[name], weights[name]) for name in weights)


def test_short_runs_have_no_estimate() -> None:
    spec = spec_of("step-vq-m")
    agent = Agent.build(spec.recipe, FrameShape(64, 64, 3), ActionSpace(3, discrete=True))
    assert estimate(agent, spec, Progress(2000, {"world": 999})) is None


def test_the_time_left_is_expected_before_it_is_measured() -> None:
    measured = Throughput()
    measured.expected = {"agent_steps": 0.5, "world_updates": 2.0}
    assert measured.seconds_left({"agent_steps": 10, "world_updates": 3}, 5) == pytest.approx(11.0)


def test_time_and_disk_are_told_in_familiar_units() -> None:
    found = Estimate({}, 3 * 86400.0, 1_480_000_000)
    assert sentence(found, 100_000, 350) == (
        "100,000 steps will take about 3 days on this machine, environment and 350 evaluation "
        "episodes apart, and at most 1.48 GB of disk"
    )
    assert [duration(s) for s in (4.0, 250.0, 7000.0, 4e7)] == [
        "4 s",
        "4.2 min",
        "1.9 h",
        "463 days",
    ]
    assert [size(n) for n in (2_000, 5_300_000)] == ["2 kB", "5.3 MB"]
