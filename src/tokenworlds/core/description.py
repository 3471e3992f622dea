"""Convert nested frozen dataclasses to JSON and back; plain values are fitted to type hints.

A dataclass becomes an object whose "type" names it, `tokenworlds.tokenizers.vq:VQ.Config`. Only
dataclasses of this package, or of modules that the caller passes, are ever built.
"""

import dataclasses
import difflib
import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from tokenworlds.core.config import ConfigOf, required, settable
from tokenworlds.core.errors import UserError, unknown

TAG = "type"
PACKAGE = "tokenworlds"
UNIONS = (Union, UnionType)
LISTS = (tuple, list, Sequence)
MAPPINGS = (dict, Mapping)


def to_json(value: Any, place: str = "description") -> Any:
    """The value as objects, lists, strings, numbers, booleans and null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {name: getattr(value, name) for name in settable(type(value))}
        return {TAG: type_tag(type(value), place), **mapping_to_json(fields, place)}
    if isinstance(value, Mapping):
        return mapping_to_json(value, place)
    if isinstance(value, tuple | list):
        return [to_json(item, f"{place}.{index}") for index, item in enumerate(value)]
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    raise UserError(f"{place} is {value!r}, which cannot be written as JSON")


def mapping_to_json(mapping: Mapping[Any, Any], place: str) -> dict[str, Any]:
    """An object with the same keys, which must be strings other than the tag of a dataclass."""
    for key in mapping:
        if not isinstance(key, str) or key == TAG:
            raise UserError(f"{place} has a key {key!r}, which cannot be written as JSON")
    return {key: to_json(value, f"{place}.{key}") for key, value in mapping.items()}


def type_tag(kind: type[Any], place: str) -> str:
    if "<locals>" in kind.__qualname__:
        raise UserError(f"{place} is a {kind.__qualname__}, which is defined inside a function")
    return f"{kind.__module__}:{kind.__qualname__}"


def from_json(
    data: Any, modules: Mapping[str, ModuleType] | None = None, place: str = "description"
) -> Any:
    """Rebuild the value that `to_json` wrote; a missing field takes its default.

    `modules` holds a user's modules by the module name in their classes' tags.
    """
    if isinstance(data, Mapping):
        values = {
            key: from_json(value, modules, f"{place}.{key}")
            for key, value in data.items()
            if key != TAG
        }
        if TAG not in data:
            return values
        return construct(resolve(data[TAG], modules or {}, place), values, place)
    if isinstance(data, list | tuple):
        return tuple(from_json(item, modules, f"{place}.{i}") for i, item in enumerate(data))
    return data


def resolve(tag: Any, modules: Mapping[str, ModuleType], place: str) -> type[Any]:
    module_name, _, path = str(tag).partition(":")
    found: Any = modules.get(module_name) or import_own(module_name)
    for name in path.split("."):
        found = vars(found).get(name) if isinstance(found, type | ModuleType) else None
    # Names imported from elsewhere are refused: the tag must be that of the class itself.
    genuine = isinstance(found, type) and f"{found.__module__}:{found.__qualname__}" == tag
    if genuine and dataclasses.is_dataclass(found):
        return cast(type[Any], found)
    raise UserError(f"{place} has the type {tag!r}, which is no dataclass of {PACKAGE}")


def import_own(name: str) -> ModuleType | None:
    """A public module of this package; None for any other module, which is not imported."""
    if not is_public(name):
        return None
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] != PACKAGE:
            raise UserError(f"{name} needs {error.name}, which is not installed") from None
        return None


def is_public(module: str) -> bool:
    top, *rest = module.split(".")
    return top == PACKAGE and all(p.isidentifier() and not p.startswith("_") for p in rest)


def modules_of(data: Any) -> set[str]:
    """The modules of all dataclasses in a description that `to_json` wrote."""
    if isinstance(data, Mapping):
        own = {str(data[TAG]).partition(":")[0]} if TAG in data else set()
        return own.union(*(modules_of(value) for value in data.values()))
    return set().union(*map(modules_of, data)) if isinstance(data, list) else set()


def construct(kind: type[Any], values: Mapping[str, Any], place: str) -> Any:
    allowed = settable(kind)
    for name in values:
        if name not in allowed:
            raise unknown(f"field of {place} ({kind.__qualname__})", name, allowed)
    absent = sorted(required(kind) - values.keys())
    if absent:
        raise UserError(f"{place} ({kind.__qualname__}) lacks {', '.join(absent)}")
    hints = get_type_hints(kind)
    checked = {
        name: coerce(value, hints[name], f"{place}.{name}") for name, value in values.items()
    }
    return checking(lambda: kind(**checked), place)


def checking(build: Callable[[], Any], place: str) -> Any:
    """Build a dataclass; a ValueError of its own checks becomes a UserError."""
    try:
        return build()
    except ValueError as error:
        raise UserError(f"{place}: {error}") from error


class MisfitError(Exception):
    """The hint does not allow the value."""


def coerce(value: Any, hint: Any, place: str) -> Any:
    """The value as the hint demands: lists become tuples, whole numbers become floats."""
    try:
        return fit(value, hint)
    except MisfitError:
        near = nearest(value, hint)
        raise UserError(f"{place} takes {words(hint)}, not {shown(value)}{near}") from None


def shown(value: Any) -> str:
    """A component by its name: its settings would fill the line."""
    return type(value).__qualname__ if isinstance(value, ConfigOf) else repr(value)


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
