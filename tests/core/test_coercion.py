from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NewType, TypeVar, Union

import pytest

from tokenworlds.core.description import coerce
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import FrameShape

Count = NewType("Count", int)
Free = TypeVar("Free")
Bound = TypeVar("Bound", bound=int)


@pytest.mark.parametrize(
    ("value", "hint", "result"),
    [
        (3, int, 3),
        (3, float, 3.0),
        (3, int | float, 3),
        (3, float | int, 3),
        (3, Union[float, str], 3.0),  # noqa: UP007
        (3.5, int | float, 3.5),
        (3, float | None, 3.0),
        (None, int | None, None),
        (None, None, None),
        (True, bool | int, True),
        ("auto", int | Literal["auto"], "auto"),
        (1, Literal[1, 2], 1),
        ([1, 2], tuple[float, ...], (1.0, 2.0)),
        ([1, "a"], tuple[int, str], (1, "a")),
        ((1, 2), list[int], [1, 2]),
        ([1], Sequence[int], (1,)),
        ([1, "a"], tuple, (1, "a")),
        ([[1], [2, 3]], tuple[tuple[int, ...], ...], ((1,), (2, 3))),
        ({"a": 1}, dict[str, float], {"a": 1.0}),
        ({"a": [1]}, Mapping[str, tuple[int, ...]], {"a": (1,)}),
        ({"a": 1}, dict, {"a": 1}),
        (3, Annotated[float, "metres"], 3.0),
        (3, Count, 3),
        ("x", Free, "x"),
        (3, Bound, 3),
        ("x", Any, "x"),
        (FrameShape(1, 2), FrameShape, FrameShape(1, 2)),
    ],
)
def test_a_value_is_coerced_to_the_hint(value: Any, hint: Any, result: Any) -> None:
    fitted = coerce(value, hint, "place")
    assert fitted == result
    assert type(fitted) is type(result)


@pytest.mark.parametrize(
    ("value", "hint", "allowed"),
    [
        (True, int, "a whole number"),
        (True, float, "a finite number"),
        (10**400, float, "a finite number"),
        (float("-inf"), float, "a finite number"),
        (1, bool, "true or false"),
        (True, Literal[1], "1"),
        (1, str, "a string"),
        ("4", int, "a whole number"),
        (0, None, "null"),
        ("x", int | Literal["a", "b"] | None, "a whole number or 'a' or 'b' or null"),
        ("ab", tuple[str, ...], "a list of strings"),
        ([1, 2, 3], tuple[int, str], "a list of 2 items: a whole number, a string"),
        ([1], tuple[bool, bool], "a list of 2 booleans"),
        ({1: 2}, dict[str, int], "an object of whole numbers"),
        ({"a": None}, dict[str, int | str], "an object of items, each a whole number or a string"),
        ({}, FrameShape, "a FrameShape"),
        ("x", Bound, "a whole number"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_what_is_allowed(
    value: Any, hint: Any, allowed: str
) -> None:
    with pytest.raises(UserError) as caught:
        coerce(value, hint, "place")
    assert str(caught.value) == f"place takes {allowed}, not {value!r}"
