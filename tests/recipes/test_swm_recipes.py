"""Smaller World Models and its ablations against the numbers of the released code."""

from collections.abc import Mapping
from functools import reduce
from typing import Any

import pytest
import torch

from tokenworlds.agent import Agent
from tokenworlds.core.config import variant
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.recipes.catalogue import RECIPES, load
from tokenworlds.replay.sampling import Uniform
from tokenworlds.runs.recipe import Recipe, build_schedule
from tokenworlds.training.dry_run import dry_run
from tokenworlds.training.summary import count

AGENTS = tuple(name for name in RECIPES if name.startswith("swm"))
NUMBERS: Mapping[str, Any] = {
    "steps": 102_400,
    "resolution": 96,
    "grey": True,
    "num_envs": 1,
    "world.frames": 4,
    "world.given": 4,
    "world.tokenizer.codebook.codes": 128,
    "world.tokenizer.codebook.width": 32,
    "world.tokenizer.codebook.decay": 0.99,
    "world.sequence.channels": 128,
    "world.sequence.layers": 2,
    "world.sequence.kernel": 5,
    "behaviour.horizon": 50,
    "behaviour.discount": 0.99,
    "behaviour.return_lambda": 0.95,
    "behaviour.clip": 0.1,
    "behaviour.value_clip": 0.1,
    "behaviour.epochs": 4,
    "behaviour.minibatch": 256,
    "learning.tokenizer.batch": 40,
    "learning.tokenizer.optimiser.rate": 1e-4,
    "learning.tokenizer.optimiser.early_rate": 1e-3,
    "learning.tokenizer.optimiser.early_updates": 16_000,
    "learning.world.batch": 4,
    "learning.world.optimiser.rate": 5e-4,
    "learning.world.optimiser.rates": {"reward": 1e-3},
    "learning.world.optimiser.epsilons": {"reward": 1e-2},
    "learning.behaviour.batch": 16,
    "learning.behaviour.scales": {"value": 0.5, "entropy": 0.01},
    "learning.behaviour.optimiser.rate": 2.5e-4,
    "learning.behaviour.optimiser.clip": 0.5,
    "collection.temperature": 1.5,
    "evaluation.temperature": 1.0,
    "evaluation.final_episodes": 32,
}


def recipe(name: str, size: str = "paper", env: str | None = None) -> Recipe:
    return load(name, size, env).recipe


def at(found: Any, path: str) -> Any:
    """The value at a dotted path."""

    def descend(value: Any, name: str) -> Any:
        return value[name] if isinstance(value, Mapping) else getattr(value, name)

    return reduce(descend, path.split("."), found)


def agent(found: Recipe, actions: int = 6) -> Agent:
    torch.manual_seed(0)
    shape = FrameShape(found.resolution, found.resolution, 1 if found.grey else 3)
    return Agent.build(found, shape, ActionSpace(actions))


@pytest.mark.parametrize(("path", "value"), NUMBERS.items(), ids=NUMBERS.keys())
def test_every_number_of_the_paper_is_in_its_recipe(path: str, value: Any) -> None:
    assert at(recipe("swm"), path) == value


@pytest.mark.parametrize("actions", [3, 4, 6, 9, 18])
@pytest.mark.parametrize(
    ("name", "encoder", "decoder"),
    [("swm", 2_012_160, 2_076_132), ("swm-1frame", 2_010_624, 2_074_593)],
)
def test_parameters_are_those_of_the_released_networks(
    name: str, encoder: int, decoder: int, actions: int
) -> None:
    built: Any = agent(recipe(name), actions)
    assert count(built.world.tokenizer.encoder) == encoder
    assert count(built.world.tokenizer.decoder) == decoder
    assert count(built.world.dynamics) == 6_088_867 + 25_760 * actions
    assert count(built.behaviour) == 1_294_337 + 513 * actions


def test_a_run_makes_as_many_updates_as_the_paper() -> None:
    goal = build_schedule(recipe("swm")).goal
    assert goal.steps == 102_400
    assert goal.updates["behaviour"] == 19_000
    assert goal.updates["world"] == pytest.approx(241_100, abs=50)
    assert goal.updates["tokenizer"] == pytest.approx(89_700 + 16_000, abs=50)


@pytest.mark.parametrize("name", AGENTS)
def test_segments_hold_ten_predictions_and_the_context_of_imagination(name: str) -> None:
    found = recipe(name)
    frames = at(found, "world.frames")
    assert found.learning["tokenizer"].length == frames
    assert found.learning["world"].length == 11 + frames - 1
    assert found.learning["behaviour"].length == at(found, "world.context") + frames


ABLATIONS = {
    "swm-1frame": (32, 6, 6),
    "swm-1d": (32, 36, 1),
    "swm-continuous": (1, 6, 6),
    "swm-continuous-1d": (36, 1, 1),
    "swm-reconstructions": (32, 6, 6),
    "swm-autoregressive": (32, 6, 6),
    "swm-small-field": (32, 6, 6),
}


@pytest.mark.parametrize(("name", "shape"), ABLATIONS.items())
def test_the_state_of_each_ablation_has_the_shape_of_the_paper(
    name: str, shape: tuple[int, ...]
) -> None:
    assert agent(recipe(name)).world.feature_shape == shape


def test_every_recipe_is_one_of_these() -> None:
    assert set(AGENTS) == {"swm", *ABLATIONS}


@pytest.mark.parametrize("name", [*AGENTS, "ppo"])
def test_each_passes_the_dry_run_at_nano(name: str) -> None:
    found = recipe(name, "nano", "catch")
    dry_run(agent(found, 3), found, FrameShape(found.resolution, found.resolution, 1))


def test_toy_games_are_evaluated_at_the_end_of_an_iteration() -> None:
    found = recipe("swm", "nano", "catch")
    assert found.evaluation.every == at(found, "schedule.steps")
    assert found.evaluation.temperature == 0.0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_envs": 4}, "takes one row for each"),
        ({"sampler": Uniform.Config()}, "sampler=latest"),
        ({"collection.temperature": 1.5}, "collection.temperature=1"),
    ],
)
def test_real_experience_must_be_the_latest(changes: dict[str, Any], sentence: str) -> None:
    found = variant(recipe("ppo", "nano", "catch"), changes)
    with pytest.raises(UserError, match=sentence):
        dry_run(agent(found, 3), found, FrameShape(32, 32, 1))


@pytest.mark.parametrize("changes", [{}, {"world.encodes_in_training": True}])
def test_a_dry_run_changes_nothing(changes: dict[str, Any]) -> None:
    found = variant(recipe("swm", "nano", "catch"), changes)
    built = agent(found, 3)
    before = {name: value.clone() for name, value in built.state_dict().items()}
    dry_run(built, found, FrameShape(32, 32, 1))
    assert all(torch.equal(before[name], value) for name, value in built.state_dict().items())


def test_ppo_collects_whole_rollouts() -> None:
    for size in ("nano", "paper"):
        found = recipe("ppo", size)
        assert found.steps % (found.num_envs * found.learning["behaviour"].length) == 0
