from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from toy_family.recurrent import Recurrent
from toy_recipe import Phase, Recipe, World

from tokenworlds.core.config import Component, get_child, replace_at, variant
from tokenworlds.core.errors import UserError


def test_a_configuration_builds_its_owner_with_the_dimensions() -> None:
    config = Recurrent.Config(width=4)
    built = config.build(inputs=3)
    assert isinstance(built, Recurrent)
    assert (built.config, built.inputs) == (config, 3)


def test_a_dimension_that_is_a_choice_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"'width'.*choices of Recurrent.Config, not dimensions"):
        Recurrent.Config().build(inputs=3, width=4)


def test_a_subclass_without_a_configuration_does_not_become_the_owner() -> None:
    class Special(Recurrent):
        pass

    assert Special.Config.owner is Recurrent


def test_a_component_may_have_no_configuration() -> None:
    class Bare(Component):
        pass

    assert not hasattr(Bare, "Config")


def test_configurations_are_frozen() -> None:
    config: Any = Recurrent.Config()
    with pytest.raises(FrozenInstanceError):
        config.width = 3


def test_children_are_fields_or_keys() -> None:
    assert get_child(Phase(batch=3), "batch") == 3
    assert get_child({"batch": 4}, "batch") == 4


@pytest.mark.parametrize("path", ["world.scales.reward", "learners.world.rate"])
def test_replacing_at_a_path_changes_only_that_place(path: str) -> None:
    recipe = Recipe()
    changed: Any = replace_at(recipe, path, 0.25)
    for name in path.split("."):
        changed = get_child(changed, name)
    assert changed == 0.25
    assert replace_at(replace_at(recipe, path, 0.25), path, back(recipe, path)) == recipe


def back(config: Any, path: str) -> Any:
    for name in path.split("."):
        config = get_child(config, name)
    return config


def test_a_variant_applies_its_changes_in_order() -> None:
    later = Recurrent.Config(width=64)
    changed = variant(Recipe(), {"world": World(), "world.sequence": later, "steps": 2})
    assert changed == Recipe(world=World(sequence=later), steps=2)


def test_a_component_takes_what_it_names_of_the_offered_dimensions() -> None:
    assert Recurrent.Config().build_from(inputs=3, grid=(2, 2)).inputs == 3


def test_a_component_that_needs_more_than_is_offered_is_refused() -> None:
    with pytest.raises(UserError, match="Recurrent does not fit here: it needs inputs, and"):
        Recurrent.Config().build_from(grid=(2, 2))
