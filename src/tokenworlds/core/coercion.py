"""Coerce plain values to type hints, and describe type hints in words."""

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, TypeVar, Union, get_args, get_origin

from tokenworlds.core.config import ConfigOf
from tokenworlds.core.errors import UserError

UNIONS = (Union, UnionType)
LISTS = (tuple, list, Sequence)
MAPPINGS = (dict, Mapping)


class MisfitError(Exception):
    """The hint does not allow the value."""


def coerce(value: Any, hint: Any, place: str) -> Any:
    """The value as the hint demands: lists become tuples, whole numbers become floats."""
    try:
        return fit(value, hint)
    except MisfitError:
        near = nearest(value, hint)
        raise UserError(f"{place} takes {words(hint)}, not {value!r}{near}") from None


def fit(value: Any, hint: Any) -> Any:
    hint = bare(hint)
    origin = get_origin(hint) or hint
    if origin is Any:
        return value
    if origin in FITTERS:
        return FITTERS[origin](value, hint)
    if isinstance(origin, type) and isinstance(value, origin):
        return value
    raise MisfitError


def bare(hint: Any) -> Any:
    """The hint without annotations, new types and type variables."""
    if get_origin(hint) is Annotated:
        return bare(get_args(hint)[0])
    if isinstance(hint, NewType):
        return bare(hint.__supertype__)
    if isinstance(hint, TypeVar):
        return bare(hint.__bound__ or Any)
    return NoneType if hint is None else hint


def fit_float(value: Any, _: Any) -> float:
    """A finite number; a boolean does not fit."""
    if type(value) not in (int, float):
        raise MisfitError
    try:
        number = float(value)
    except OverflowError:
        raise MisfitError from None
    if not math.isfinite(number):
        raise MisfitError
    return number


def fit_exactly(value: Any, hint: Any) -> Any:
    """A value of exactly this class: a boolean is no whole number."""
    if type(value) is not hint:
        raise MisfitError
    return value


def fit_literal(value: Any, hint: Any) -> Any:
    if not any(type(choice) is type(value) and choice == value for choice in get_args(hint)):
        raise MisfitError
    return value


def fit_union(value: Any, hint: Any) -> Any:
    """The first alternative that keeps the value's class, else the first that fits."""
    fitting = []
    for alternative in get_args(hint):
        try:
            fitting.append(fit(value, alternative))
        except MisfitError:
            continue
    if not fitting:
        raise MisfitError
    return next((fitted for fitted in fitting if type(fitted) is type(value)), fitting[0])


def fit_list(value: Any, hint: Any) -> Any:
    """A list or tuple whose items fit; becomes a tuple unless the hint is a list."""
    if not isinstance(value, list | tuple):
        raise MisfitError
    hints = item_hints(hint, len(value))
    if len(hints) != len(value):
        raise MisfitError
    items = [fit(item, item_hint) for item, item_hint in zip(value, hints, strict=True)]
    return items if (get_origin(hint) or hint) is list else tuple(items)


def item_hints(hint: Any, length: int) -> tuple[Any, ...]:
    arguments = get_args(hint)
    if not arguments:
        return (Any,) * length
    if (get_origin(hint) or hint) is tuple and arguments[-1] is not Ellipsis:
        return arguments
    return (arguments[0],) * length


def fit_mapping(value: Any, hint: Any) -> Any:
    """A mapping whose keys are strings and whose values fit."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise MisfitError
    return {key: fit(item, value_hint(hint)) for key, item in value.items()}


def value_hint(hint: Any) -> Any:
    return (*get_args(hint), Any, Any)[1]


def child_hint(hint: Any, container: Any, name: str) -> Any:
    """The hint of one item of a list or mapping; a union is searched for it."""
    hint = bare(hint)
    kinds = MAPPINGS if isinstance(container, Mapping) else LISTS
    alternatives = get_args(hint) if get_origin(hint) in UNIONS else (hint,)
    fitting = [bare(one) for one in alternatives if (get_origin(bare(one)) or one) in kinds]
    if not fitting:
        return Any
    if isinstance(container, Mapping):
        return value_hint(fitting[0])
    return item_hints(fitting[0], len(container))[int(name)]


Fitter = Callable[[Any, Any], Any]
FITTERS: dict[Any, Fitter] = {
    float: fit_float,
    Literal: fit_literal,
    **dict.fromkeys((int, bool, str, NoneType), fit_exactly),
    **dict.fromkeys(UNIONS, fit_union),
    **dict.fromkeys(LISTS, fit_list),
    **dict.fromkeys(MAPPINGS, fit_mapping),
}

SINGULAR = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a string",
    NoneType: "null",
    Any: "anything",
}
PLURAL = {int: "whole numbers", float: "finite numbers", bool: "booleans", str: "strings"}


def words(hint: Any) -> str:
    """The values that a hint allows, in words."""
    hint = bare(hint)
    origin = get_origin(hint) or hint
    if hint in SINGULAR:
        return SINGULAR[hint]
    if origin is Literal:
        return " or ".join(repr(choice) for choice in get_args(hint))
    if origin in UNIONS:
        return " or ".join(words(alternative) for alternative in get_args(hint))
    if origin in LISTS:
        return list_words(hint)
    if origin in MAPPINGS:
        return f"an object of {plural(value_hint(hint))}"
    return "the name of a component" if origin is ConfigOf else f"a {class_name(hint)}"


def list_words(hint: Any) -> str:
    hints = item_hints(hint, 1)
    if len(set(hints)) != 1:
        return f"a list of {len(hints)} items: {', '.join(words(item) for item in hints)}"
    count = f"{len(hints)} " if len(hints) > 1 else ""
    return f"a list of {count}{plural(hints[0])}"


def plural(hint: Any) -> str:
    return PLURAL.get(bare(hint), f"items, each {words(hint)}")


def class_name(hint: Any) -> str:
    """A class's name with its arguments, without modules."""
    name = getattr(get_origin(hint) or hint, "__qualname__", str(hint))
    arguments = ", ".join(class_name(argument) for argument in get_args(hint))
    return f"{name}[{arguments}]" if arguments else name


def nearest(value: Any, hint: Any) -> str:
    """A question that offers the choice nearest to a misspelt string."""
    strings = [choice for choice in choices(hint) if isinstance(choice, str)]
    near = difflib.get_close_matches(value, strings, n=1, cutoff=0.5) if type(value) is str else []
    return f"; did you mean {near[0]!r}?" if near else ""


def choices(hint: Any) -> list[Any]:
    """The literal values that a hint allows."""
    hint = bare(hint)
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if get_origin(hint) in UNIONS:
        return [choice for alternative in get_args(hint) for choice in choices(alternative)]
    return []
