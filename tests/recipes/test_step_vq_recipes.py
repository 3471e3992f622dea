"""STEP-VQ, its baseline and DRAMA against the numbers of their papers."""

from typing import Any

import pytest
from torch import nn

from tokenworlds.agent import Agent
from tokenworlds.core.config import variant
from tokenworlds.core.description import from_json, to_json
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.recipes.catalogue import RECIPES, load
from tokenworlds.training.summary import count, discretisation, parameter_tree

SIZES = ("nano", "small", "paper")
# Paper, section 3, and the same path at 96x96.
DISCRETISATION = {
    "step-vq-m": 2_175_616,
    "step-vq-t": 2_175_616,
    "step-vq-m-ce": 2_175_616,
    "step-vq-m-96": 4_802_176,
    "cb-m": 8_919_552,
    "cb-t": 8_919_552,
    "cb-m-96": 19_410_432,
}
CONVOLUTIONS = {"step-vq-m": (1_079_040, 1_078_275), "cb-m": (2_718_208, 2_717_443)}
MAP_NORMS: tuple[type[nn.Module], ...] = (nn.BatchNorm2d, nn.GroupNorm)
# DRAMA's released networks, six actions.
DRAMA = {
    "encoder": 232_272,
    "decoder": 1_281_811,
    "heads": 1_574_912,
    "sequence": 3_737_504,
    "reward": 197_119,
    "termination": 131_841,
    "total": 7_155_459,
}


def build(name: str, size: str = "paper", actions: int = 6) -> Any:
    recipe = load(name, size).recipe
    shape = FrameShape(recipe.resolution, recipe.resolution)
    return recipe.world.build(frame_shape=shape, action_space=ActionSpace(actions))


@pytest.mark.parametrize(("name", "expected"), DISCRETISATION.items())
def test_discretisation_path(name: str, expected: int) -> None:
    assert discretisation(build(name)) == expected


@pytest.mark.parametrize(("name", "expected"), CONVOLUTIONS.items())
def test_convolutions(name: str, expected: tuple[int, int]) -> None:
    tree = parameter_tree(build(name))["tokenizer"]
    assert (tree["encoder"], tree["decoder"]) == expected


def test_world_with_dramas_sixteen_heads() -> None:
    """13,180,867 in all, of which 8,192 are the codebook, which has no gradient."""
    recipe = load("step-vq-m", "paper").recipe
    changed = variant(recipe, {"world.sequence.heads": 16})
    world: Any = changed.world.build(frame_shape=FrameShape(64, 64), action_space=ActionSpace(6))
    assert count(world) + 64 * 128 == 13_180_867


def test_dramas_world() -> None:
    """Its decoder includes the linear layer, its sequence model the mixer of the action."""
    tree = parameter_tree(build("drama"))
    tokenizer = tree["tokenizer"]
    found = {
        "encoder": tokenizer["encoder"],
        "decoder": tokenizer["expand"] + tokenizer["norm"] + tokenizer["decoder"],
        "heads": tokenizer["posterior"] + tree["prior"]["total"],
        "sequence": tree["mixer"]["total"] + tree["sequence"]["total"],
        "reward": tree["reward"]["total"],
        "termination": tree["termination"]["total"],
        "total": tree["total"],
    }
    assert found == DRAMA


def test_dramas_actor_and_critic() -> None:
    recipe = load("drama", "paper").recipe
    behaviour: Any = Agent.build(recipe, FrameShape(64, 64), ActionSpace(6)).behaviour
    assert (count(behaviour.actor), count(behaviour.critic)) == (527_366, 1_444_607)


def test_drama_has_batch_norm_except_at_nano() -> None:
    def norms(size: str) -> set[type[nn.Module]]:
        modules = list(build("drama", size).tokenizer.modules())
        return {kind for kind in MAP_NORMS for module in modules if isinstance(module, kind)}

    assert [norms(size) for size in ("paper", "small", "nano")] == [
        {nn.BatchNorm2d},
        {nn.BatchNorm2d},
        {nn.GroupNorm},
    ]


def test_drama_equals_the_baseline_at_nano() -> None:
    drama, baseline = (load(name, "nano", "catch").recipe for name in ("drama", "cb-m"))
    assert variant(drama, {"paper": baseline.paper}) == baseline


def test_the_smaller_sizes_of_drama_are_smaller() -> None:
    nano, small, paper = (count(build("drama", size)) for size in SIZES)
    assert nano < paper / 4
    assert nano < small < paper / 1.5


def test_totals_add_up() -> None:
    def check(tree: dict[str, Any]) -> None:
        parts = [part for name, part in tree.items() if name != "total"]
        counts = [part if isinstance(part, int) else part["total"] for part in parts]
        assert tree["total"] == sum(counts)
        for part in parts:
            if isinstance(part, dict):
                check(part)

    world = build("step-vq-m")
    tree = parameter_tree(world)
    assert tree["total"] == count(world)
    check(tree)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_round_trips_through_json(name: str, size: str) -> None:
    recipe = load(name, size).recipe
    assert from_json(to_json(recipe)) == recipe


@pytest.mark.parametrize("name", [name for name in RECIPES if name not in ("ppo", "drama")])
def test_nano_is_small(name: str) -> None:
    """`ppo` has no world, and that of DRAMA is small at `paper`."""
    assert count(build(name, "nano")) < count(build(name)) / 5


def test_iris_sizes() -> None:
    world = build("step-vq-iris")
    assert (world.tokenizer.tokens, world.tokenizer.vocabulary) == (16, 512)
    recipe, iris = load("step-vq-iris", "paper").recipe, load("iris", "paper").recipe
    for name in ("world", "behaviour"):
        assert recipe.learning[name].batch == iris.learning[name].batch
    assert recipe.learning["world"].length == iris.learning["world"].length


def test_toy_games_are_evaluated_on_many_episodes_and_atari_as_in_the_paper() -> None:
    toy = load("step-vq-m", "nano", "catch").recipe.evaluation
    atari = load("step-vq-m", "nano", "atari:Pong").recipe.evaluation
    assert (toy.final_episodes, atari.final_episodes, atari.every) == (100, 10, 1000)


@pytest.mark.parametrize("name", ["step-vq-m", "step-vq-t", "step-vq-m-ce"])
def test_a_token_of_minatar_is_a_cell_of_its_board(name: str) -> None:
    recipe = load(name, "nano", "minatar:breakout").recipe
    shape = FrameShape(recipe.resolution, recipe.resolution)
    world: Any = recipe.world.build(frame_shape=shape, action_space=ActionSpace(3))
    assert world.tokenizer.grid == (10, 10)


@pytest.mark.parametrize("size", ["small", "paper"])
def test_the_larger_sizes_have_the_dynamics_of_the_paper(size: str) -> None:
    assert build("step-vq-m", size).local is None
    assert build("step-vq-m", "tiny").local is not None
