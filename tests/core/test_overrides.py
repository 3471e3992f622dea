from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_family.attention_stack import Attention, AttentionStack
from toy_family.recurrent import Recurrent
from toy_family.samplers import DynamicFrequency, Uniform
from toy_recipe import Phase, Recipe, World

from tokenworlds.core.config import get_child
from tokenworlds.core.errors import UserError
from tokenworlds.core.overrides import override
from tokenworlds.core.progress import Every


def at(config: Any, path: str) -> Any:
    for name in path.split("."):
        config = config[int(name)] if isinstance(config, tuple) else get_child(config, name)
    return config


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("steps", "5", 5),
        ("steps", " 5 ", 5),
        ("world.sequence.layers", "4", 4),
        ("world.sequence.decay", "1", 1.0),
        ("world.sequence.decay", "2.5e-3", 0.0025),
        ("world.sequence.bias", "false", False),
        ("world.sequence.bias", "False", False),
        ("world.sequence.clip", "3", 3.0),
        ("world.sequence.clip", "null", None),
        ("world.sequence.clip", "None", None),
        ("world.sequence.gate", "hard", "hard"),
        ("world.sequence.gate", '"hard"', "hard"),
        ("world.sequence.label", "a=b", "a=b"),
        ("world.sequence.label", "12", "12"),
        ("world.sequence.label", "true", "true"),
        ("world.sequence.label", "", ""),
        ("world.sequence.channels", "[1, 2, 3]", (1, 2, 3)),
        ("world.sequence.channels", "[]", ()),
        ("world.sequence.channels.1", "9", 9),
        ("world.sequence.size", "[96, 96]", (96, 96)),
        ("world.scales.reward", "2", 2.0),
        ("world.scales", '{"reward": 1, "prior": 0.5}', {"reward": 1.0, "prior": 0.5}),
        ("world.scales.commitment", "2", 2.0),
        ("phases.1.rate", "1e-3", 1e-3),
        ("learners.world.batch", "7", 7),
        ("extra", '{"anything": [1]}', {"anything": (1,)}),
        ("extra", '{"type": "tokenworlds.core.progress:Every", "steps": 3}', Every(3)),
    ],
)
def test_the_value_at_the_path_is_replaced(path: str, text: str, value: Any) -> None:
    found = at(override(Recipe(), [f"{path}={text}"]), path)
    assert found == value
    assert type(found) is type(value)


def test_other_values_and_the_original_stay() -> None:
    before = Recipe()
    after = override(before, ["phases.0.batch=1", "steps=2"])
    assert after == Recipe(phases=(Phase(batch=1), Phase(batch=32)), steps=2)
    assert before == Recipe()


def test_later_assignments_win() -> None:
    assert override(Recipe(), ["steps=1", "steps=2"]).steps == 2


@given(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_that_python_prints_is_read(count: int, rate: float) -> None:
    after = override(Recipe(), [f"phases.0.batch={count!r}", f"phases.0.rate={rate!r}"])
    assert after.phases[0] == Phase(batch=count, rate=rate)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("steps=four", "steps takes a whole number, not 'four'"),
        ("steps=4.5", "steps takes a whole number, not 4.5"),
        ("steps=true", "steps takes a whole number, not True"),
        ("steps=", "steps takes a whole number, not ''"),
        ("world.sequence.layers=null", "world.sequence.layers takes a whole number, not None"),
        ("world.sequence.decay=fast", "world.sequence.decay takes a finite number, not 'fast'"),
        ("world.sequence.decay=true", "takes a finite number, not True"),
        ("world.sequence.decay=nan", "takes a finite number, not 'nan'"),
        ("world.sequence.decay=NaN", "takes a finite number, not nan"),
        ("world.sequence.decay=Infinity", "takes a finite number, not inf"),
        ("world.sequence.decay=1e999", "takes a finite number, not inf"),
        ("world.sequence.bias=1", "world.sequence.bias takes true or false, not 1"),
        ("world.sequence.bias=yes", "takes true or false, not 'yes'"),
        ("world.sequence.clip=x", "world.sequence.clip takes a finite number or null, not 'x'"),
        ("world.sequence.channels=3", "world.sequence.channels takes a list of whole numbers, not"),
        ("world.sequence.channels=[1, 2.5]", "takes a list of whole numbers, not (1, 2.5)"),
        ("world.sequence.size=[1]", "world.sequence.size takes a list of 2 whole numbers, not"),
        ("world.scales=1", "world.scales takes an object of finite numbers, not 1"),
        ("world.scales.prior=low", "world.scales.prior takes a finite number, not 'low'"),
        ("learners.behaviour=3", "learners.behaviour takes a Phase, not 3"),
        ('world.scales={"a": "b"}', "world.scales takes an object of finite numbers, not"),
        ("phases.0=4", "phases.0 takes a Phase, not 4"),
        ("phases=[1]", "phases takes a list of items, each a Phase, not (1,)"),
        (
            "world.sequence.gate=herd",
            "takes 'sigmoid' or 'hard', not 'herd'; did you mean 'hard'?",
        ),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(assignment: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        override(Recipe(), [assignment])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("wrld.steps=1", "unknown field of Recipe 'wrld'"),
        ("wrld.steps=1", "did you mean 'world'?"),
        ("world.sequense.layers=1", "unknown field of world 'sequense': choose from scales, seq"),
        ("world.sequence.layer=1", "did you mean 'layers'?"),
        ("learners.wold.batch=1", "unknown field of learners 'wold': choose from world; did you"),
        ("phases.2.batch=1", "unknown field of phases '2': choose from 0, 1"),
        ("world..steps=1", "unknown field of world ''"),
        ("steps.more=1", "steps is a value (1000) and has no field 'more'"),
        ("warmup.batch=1", "warmup is a value (None) and has no field 'batch'"),
        ("steps", "'steps' is no assignment"),
        ("=5", "'=5' is no assignment"),
        ("", "'' is no assignment"),
    ],
)
def test_a_wrong_path_is_named_with_the_place_of_the_error(assignment: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        override(Recipe(), [assignment])
    assert message in str(caught.value)


def test_a_value_that_the_configuration_refuses_is_a_user_error() -> None:
    with pytest.raises(UserError, match=r"world\.sequence\.width: width 7 is odd"):
        override(Recipe(), ["world.sequence.width=7"])


@pytest.mark.parametrize("name", ["attention_stack", "attention-stack", '"attention_stack"'])
def test_a_component_is_swapped_by_name_and_common_fields_are_kept(name: str) -> None:
    recipe = Recipe(world=World(sequence=Recurrent.Config(width=32, layers=5, heads="many")))
    swapped = override(recipe, [f"world.sequence={name}"])
    # `heads` is a string in one and a number in the other, so it is not kept.
    assert swapped.world.sequence == AttentionStack.Config(width=32, layers=5, heads=4)


def test_a_swapped_component_takes_assignments_of_its_own() -> None:
    swapped = override(Recipe(), ["world.sequence=attention_stack", "world.sequence.heads=2"])
    assert swapped.world.sequence == AttentionStack.Config(width=8, layers=1, heads=2)


def test_swapping_a_component_for_itself_changes_nothing() -> None:
    recipe = Recipe(world=World(sequence=Recurrent.Config(width=2, label="mine")))
    assert override(recipe, ["world.sequence=recurrent"]) == recipe


@pytest.mark.parametrize("name", ["recurrant", "constants", "_hidden", "os"])
def test_an_unknown_member_is_named_with_the_family(name: str) -> None:
    with pytest.raises(UserError) as caught:
        override(Recipe(), [f"world.sequence={name}"])
    wanted = f"unknown component for world.sequence {name!r}: choose from attention_stack, "
    assert str(caught.value).startswith(wanted + "demanding, recurrent")


def test_a_member_whose_dependency_is_missing_says_so() -> None:
    with pytest.raises(UserError, match="unavailable needs a_package_that_does_not_exist"):
        override(Recipe(), ["world.sequence=unavailable"])


def test_the_nearest_member_is_offered() -> None:
    with pytest.raises(UserError, match="did you mean 'recurrent'"):
        override(Recipe(), ["world.sequence=recurrant"])


def test_a_member_without_defaults_says_what_it_lacks() -> None:
    with pytest.raises(UserError, match=r"world\.sequence: Only has no default for depth"):
        override(Recipe(), ["world.sequence=demanding"])


def test_a_component_does_not_take_a_number() -> None:
    with pytest.raises(UserError, match=r"world\.sequence takes the name of a component, not 3"):
        override(Recipe(), ["world.sequence=3"])


def test_a_users_own_component_comes_from_the_loader() -> None:
    asked: list[str] = []

    def load(name: str) -> type[Attention]:
        asked.append(name)
        return Attention

    swapped = override(Recipe(), ["world.sequence=mine.py:Attention"], load)
    assert asked == ["mine.py:Attention"]
    assert swapped.world.sequence == Attention.Config()


@pytest.mark.parametrize("name", ["dynamic_frequency", "dynamic-frequency"])
def test_components_that_share_a_file_are_a_family(name: str) -> None:
    recipe = Recipe(world=World(sequence=Uniform.Config(temperature=3.0)))
    swapped = override(recipe, [f"world.sequence={name}"])
    assert swapped.world.sequence == DynamicFrequency.Config(temperature=3.0)
    with pytest.raises(UserError, match="choose from dynamic_frequency, uniform"):
        override(recipe, ["world.sequence=recurrent"])


def test_a_member_that_the_place_does_not_take_is_refused() -> None:
    with pytest.raises(UserError, match=r"fixed takes a Recurrent\.Config, not AttentionStack"):
        override(Recipe(), ["fixed=attention_stack"])
