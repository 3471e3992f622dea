"""DreamerV3 against the released code: parameters by component and size, benchmark settings."""

import pytest
import torch
from torch import nn

from tokenworlds.agent import Agent
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.dry_run import dry_run
from tokenworlds.training.summary import count

SHAPE = FrameShape(64, 64)
SIZES = {
    "1m": 688_004,
    "12m": 10_498_772,
    "25m": 23_496_244,
    "50m": 41_659_284,
    "100m": 93_482_068,
    "200m": 165_967_124,
    "400m": 372_924_052,
}
SPACES = {
    "atari:Pong": (ActionSpace(18), 10_498_772),
    "crafter": (ActionSpace(17), 10_498_259),
    "dmc:walker-walk": (ActionSpace(6, discrete=False), 10_494_158),
}
COMPONENTS = {
    "world.encoder": 220_416,
    "world.core.inputs": 660_736,
    "world.core.hidden": 2_099_200,
    "world.core.gates": 1_579_008,
    "world.core": 4_341_760,
    "world.posterior": 918_528,
    "world.prior": 722_432,
    "world.decoder": 1_272_003,
    "world.reward": 721_407,
    "world.termination": 656_129,
    "behaviour.actor": 792_594,
    "behaviour.critic": 853_503,
}


def build(recipe: Recipe, space: ActionSpace) -> Agent:
    with torch.device("meta"):
        return Agent.build(recipe, SHAPE, space)


@pytest.mark.parametrize(("size", "expected"), SIZES.items())
def test_each_size_has_the_published_number_of_parameters(size: str, expected: int) -> None:
    assert count(build(load("dreamer-v3", size).recipe, ActionSpace(18))) == expected


@pytest.mark.parametrize("env", SPACES)
def test_paper_is_12m_on_every_benchmark(env: str) -> None:
    space, expected = SPACES[env]
    assert count(build(load("dreamer-v3", "paper", env).recipe, space)) == expected


@pytest.mark.parametrize(("name", "expected"), COMPONENTS.items())
def test_each_component_has_the_published_number_of_parameters(name: str, expected: int) -> None:
    agent: nn.Module = build(load("dreamer-v3", "paper").recipe, ActionSpace(18))
    assert count(agent.get_submodule(name)) == expected


@pytest.mark.parametrize(
    ("env", "steps", "num_envs", "updates"),
    [
        ("atari:Pong", 100_000, 1, 24_728),
        ("crafter", 1_000_000, 1, 499_456),
        ("dmc:walker-walk", 500_000, 16, 248_976),
    ],
)
def test_updates_of_a_whole_run(env: str, steps: int, num_envs: int, updates: int) -> None:
    """About 24.7 thousand on Atari 100k and 499 thousand on Crafter."""
    recipe = load("dreamer-v3", "paper", env).recipe
    schedule = recipe.schedule.build(num_envs=recipe.num_envs, total=recipe.steps)
    assert (recipe.steps, recipe.num_envs) == (steps, num_envs)
    assert schedule.goal.updates == {"agent": updates}


@pytest.mark.parametrize("size", ["nano", "1m"])
@pytest.mark.parametrize("space", [ActionSpace(3), ActionSpace(2, discrete=False)])
def test_it_passes_a_dry_run(size: str, space: ActionSpace) -> None:
    recipe = load("dreamer-v3", size, "catch").recipe
    shape = FrameShape(recipe.resolution, recipe.resolution)
    torch.manual_seed(0)
    dry_run(Agent.build(recipe, shape, space), recipe, shape)
