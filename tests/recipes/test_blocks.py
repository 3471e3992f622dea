"""Named blocks of differences: sizes, benchmarks and games of a recipe."""

import sys
from pathlib import Path

import pytest

from tokenworlds.agent import Agent
from tokenworlds.core.config import variant
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.envs.catalogue import families
from tokenworlds.recipes import listing
from tokenworlds.recipes.blocks import SizedRecipe, recipe
from tokenworlds.recipes.catalogue import OWN, RECIPES, load
from tokenworlds.recipes.ppo import ppo
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.dry_run import dry_run


@recipe(
    benchmarks={"dmc": {"steps": 1, "resolution": 1, "num_envs": 1}},
    sizes={"1m": {"resolution": 2, "num_envs": 2}, "400m": {"steps": 400}},
    games={"toy": {"num_envs": 3}, "toy:steer 1m": {"steps": 3}},
)
def base() -> Recipe:
    return variant(ppo(), {"steps": 0, "resolution": 0, "num_envs": 0})


@recipe(like=base, sizes={"1m": {"num_envs": 9}}, games={"toy": {}})
def ablation() -> Recipe:
    return variant(base(), {"grey": False})


def numbers(found: Recipe) -> tuple[int, int, int]:
    return found.steps, found.resolution, found.num_envs


@pytest.mark.parametrize(
    ("size", "env", "expected"),
    [
        ("paper", "", (0, 0, 0)),
        ("paper", "dmc:walker-walk", (1, 1, 1)),
        ("1m", "", (0, 2, 2)),
        ("1m", "dmc:walker-walk", (1, 2, 2)),
        ("1m", "toy:catch", (0, 2, 3)),
        ("1m", "toy:steer", (3, 2, 3)),
        ("400m", "toy:steer", (400, 0, 3)),
        ("paper", "toy:steer", (0, 0, 3)),
    ],
)
def test_benchmarks_then_the_size_then_games(
    size: str, env: str, expected: tuple[int, int, int]
) -> None:
    assert numbers(base.at(size, env)) == expected


def test_an_unknown_size_is_named_with_the_sizes_of_the_recipe() -> None:
    with pytest.raises(UserError, match="unknown size '40m': choose from 1m, 400m, paper"):
        base.at("40m")


def test_a_recipe_like_another_replaces_blocks_by_name() -> None:
    assert not ablation.at("paper").grey
    assert numbers(ablation.at("1m", "toy:steer")) == (3, 0, 9)
    assert numbers(ablation.at("400m", "dmc:walker-walk")) == (400, 1, 1)


def test_changes_apply_last_at_every_size_and_in_every_environment() -> None:
    changed = base.changed({"num_envs": 7}).changed({"grey": False})
    assert numbers(changed()) == (0, 0, 7)
    assert numbers(changed.at("1m", "toy:steer")) == (3, 2, 7)
    assert not changed.at("400m").grey
    assert numbers(base.at("1m")) == (0, 2, 2)


@pytest.mark.parametrize("found", RECIPES.values(), ids=RECIPES)
def test_blocks_are_named_after_environments_and_sizes(found: SizedRecipe) -> None:
    for name in (*found.benchmarks, *found.games):
        env, *sizes = name.split()
        assert env.partition(":")[0] in families()
        assert set(sizes) <= set(found.size_names)


ALIGNED = ["step-vq-m", "cb-m", "drama", "storm", "git-storm", "delta-iris", "swm"]


@pytest.mark.parametrize("name", ALIGNED)
def test_a_pixel_of_minatar_shows_one_cell_and_all_cells_are_alike(name: str) -> None:
    assert load(name, "nano", "minatar:breakout").recipe.resolution % 10 == 0


@pytest.mark.parametrize("name", [name for name, found in RECIPES.items() if "nano" in found.sizes])
def test_every_recipe_can_learn_minatar(name: str) -> None:
    recipe = load(name, "nano", "minatar:breakout").recipe
    shape = FrameShape(recipe.resolution, recipe.resolution, 1 if recipe.grey else 3)
    dry_run(Agent.build(recipe, shape, ActionSpace(3)), recipe, shape)


def test_the_recipes_of_the_package_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '"""A paper.\n\nMore."""\n\ndef my_agent() -> Recipe:\n    """An agent."""\n'
    (tmp_path / "paper.py").write_text(text + "\n\ndef helper(x: int) -> Recipe: ...\n")
    (tmp_path / "_hidden.py").write_text(text)
    (tmp_path / "tables.py").write_text("NANO = {}\n")
    monkeypatch.setattr(listing, "__file__", str(tmp_path / "listing.py"))
    assert listing.entries() == [listing.Entry("my-agent", "An agent.", "A paper.", "paper")]


def test_the_sizes_of_recipes_are_read_from_their_decorators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "MORE = {'1m': {}}\n\n@recipe(sizes={'nano': {}, **MORE})\ndef one() -> Recipe: ...\n"
    (tmp_path / "second.py").write_text(text)
    text = "@recipe(like=one, sizes={'nano': {}, 'small': {}})\ndef two() -> Recipe: ...\n"
    (tmp_path / "first.py").write_text(text)
    monkeypatch.setattr(listing, "__file__", str(tmp_path / "listing.py"))
    sizes = {entry.name: entry.sizes for entry in listing.entries()}
    assert sizes == {"two": ("nano", "1m", "small", "paper"), "one": ("nano", "1m", "paper")}


OWN_RECIPES = """
from tokenworlds.core.config import variant
from tokenworlds.recipes.blocks import recipe
from tokenworlds.recipes.ppo import ppo
from tokenworlds.runs.recipe import Recipe


def plain() -> Recipe:
    return variant(ppo(), {"steps": 7})


@recipe(sizes={"tiny": {"resolution": 8}}, games={"toy": {"num_envs": 5}})
def sized() -> Recipe:
    return variant(ppo(), {"steps": 7})
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "my_agents.py").write_text(OWN_RECIPES)
    monkeypatch.setitem(sys.modules, "my_agents", sys)
    return str(tmp_path / "my_agents.py")


def test_a_users_recipe_is_taken_as_written(own: str) -> None:
    found = load(f"{own}:plain", "nano", "catch")
    assert (found.recipe, found.size) == (variant(ppo(), {"steps": 7}), OWN)


def test_a_users_recipe_may_declare_sizes(own: str) -> None:
    found = load(f"{own}:sized", "tiny", "catch")
    assert numbers(found.recipe) == (7, 8, 5)
    assert found.size == "tiny"
    with pytest.raises(UserError, match="unknown size 'nano': choose from paper, tiny"):
        load(f"{own}:sized", "nano", "catch")
