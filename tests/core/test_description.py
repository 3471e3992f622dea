import dataclasses
import json
import math
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_family.attention_stack import AttentionStack
from toy_family.recurrent import Recurrent
from toy_recipe import MODULES, Phase, Recipe, World

from tokenworlds.core.description import from_json, to_json
from tokenworlds.core.errors import UserError
from tokenworlds.core.progress import Every
from tokenworlds.core.types import FrameShape

numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 10**9)
phases = st.builds(Phase, batch=counts, rate=numbers)
recurrent = st.builds(
    Recurrent.Config,
    width=counts.map(lambda n: 2 * n),
    gate=st.sampled_from(["sigmoid", "hard"]),
    channels=st.lists(counts).map(tuple),
    label=st.text(),
    bias=st.booleans(),
    clip=st.none() | numbers,
)
stacks = st.builds(AttentionStack.Config, heads=counts)
names = st.text().filter(lambda name: name != "type")
recipes = st.builds(
    Recipe,
    world=st.builds(World, sequence=recurrent | stacks, scales=st.dictionaries(names, numbers)),
    phases=st.lists(phases, max_size=3).map(tuple),
    learners=st.dictionaries(names, phases, max_size=3),
    warmup=st.none() | phases,
)


@given(recipes)
def test_a_description_round_trips_through_json(recipe: Recipe) -> None:
    text = json.dumps(to_json(recipe), allow_nan=False)
    assert from_json(json.loads(text), MODULES) == recipe


def test_a_dataclass_is_written_with_the_name_of_its_type() -> None:
    assert to_json(FrameShape(64, 32)) == {
        "type": "tokenworlds.core.types:FrameShape",
        "height": 64,
        "width": 32,
        "channels": 3,
    }
    assert to_json(AttentionStack.Config())["type"] == (
        "toy_family.attention_stack:AttentionStack.Config"
    )


def test_classes_of_the_package_need_not_be_passed() -> None:
    assert from_json(to_json(Every(7))) == Every(7)


def test_lists_are_read_as_tuples() -> None:
    assert from_json({"a": [1, [2.5, None]], "b": "x"}) == {"a": (1, (2.5, None)), "b": "x"}


def test_whole_numbers_become_floats_where_the_hint_is_float() -> None:
    phase = from_json({"type": "toy_recipe:Phase", "rate": 1}, MODULES)
    assert type(phase.rate) is float


def test_a_missing_field_takes_its_default() -> None:
    assert from_json({"type": "toy_recipe:Phase", "batch": 3}, MODULES) == Phase(batch=3)


@pytest.mark.parametrize(
    "tag",
    [
        "os:PathLike",
        "builtins:dict",
        "json",
        "",
        7,
        None,
        "tokenworlds.core.types",
        "tokenworlds.core.types:",
        "tokenworlds.core.types:masked_mean",  # a function
        "tokenworlds.core.types:Tensor",  # a class but no dataclass
        "tokenworlds.core.types:torch.Tensor",  # through a module
        "tokenworlds.core.protocols:Segment",  # a dataclass imported from elsewhere
        "tokenworlds.core.errors:UserError",
        "tokenworlds.core.nowhere:Thing",
        "tokenworlds.core.types:Nothing",
        "tokenworlds.__main__:Thing",
        "tokenworlds.core..types:FrameShape",
        "tokenworldsevil.core:Thing",
        ".core.types:FrameShape",
        "toy_recipe:Phase",  # imported, but not passed
    ],
)
def test_any_other_type_is_refused(tag: Any) -> None:
    with pytest.raises(UserError, match=r"recipe has the type .* no dataclass of tokenworlds"):
        from_json({"type": tag}, place="recipe")


def test_foreign_modules_are_not_even_imported() -> None:
    assert "antigravity" not in sys.modules
    with pytest.raises(UserError):
        from_json({"type": "antigravity:Thing"})
    assert "antigravity" not in sys.modules


def test_an_unknown_field_is_named_with_its_place_and_the_nearest_match() -> None:
    data = to_json(Recipe())
    data["world"]["sequence"]["layerz"] = 3
    with pytest.raises(UserError, match=r"description\.world\.sequence .*'layerz'.*mean 'layers'"):
        from_json(data, MODULES)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(UserError, match=r"\(FrameShape\) lacks height, width"):
        from_json({"type": "tokenworlds.core.types:FrameShape"})


def test_a_value_of_the_wrong_type_is_named_with_its_place() -> None:
    data = to_json(Recipe())
    data["phases"][1]["batch"] = "many"
    with pytest.raises(UserError, match=r"phases\.1\.batch takes a whole number, not 'many'"):
        from_json(data, MODULES)


def test_a_component_does_not_fit_the_hint_of_a_phase() -> None:
    data = to_json(Recipe(warmup=Phase()))
    data["warmup"] = to_json(AttentionStack.Config())
    with pytest.raises(UserError, match="warmup takes a Phase or null"):
        from_json(data, MODULES)


def test_a_value_that_the_dataclass_refuses_is_a_user_error() -> None:
    with pytest.raises(UserError, match="description: width 3 is odd"):
        from_json({"type": "toy_family.recurrent:Recurrent.Config", "width": 3}, MODULES)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, object(), {1: 2}, {"type": 1}, Recipe, {"deep": [math.inf]}]
)
def test_values_without_json_are_refused(value: Any) -> None:
    with pytest.raises(UserError, match=r"description.* cannot be written as JSON"):
        to_json(value)


def test_a_class_inside_a_function_is_refused() -> None:
    @dataclass(frozen=True)
    class Local:
        size: int = 1

    with pytest.raises(UserError, match="Local"):
        to_json(Local())


def test_derived_fields_are_not_written() -> None:
    data = to_json(Derived(side=3))
    assert data == {"type": "test_description:Derived", "side": 3}
    assert from_json(data, {"test_description": sys.modules[__name__]}).area == 9


@dataclass(frozen=True)
class Derived:
    side: int
    area: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "area", self.side**2)
