"""Convert nested frozen dataclasses to JSON and back, and change them by dotted assignments.

A dataclass becomes an object whose "type" names it, `tokenworlds.tokenizers.vq:VQ.Config`. Only
dataclasses of this package, or of modules that the caller passes, are ever built.
"""

import dataclasses
import importlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeVar, cast, get_type_hints

from tokenworlds.core.coercion import child_hint, coerce
from tokenworlds.core.config import (
    Component,
    ConfigOf,
    adapt,
    find_member,
    replace_child,
    required,
    settable,
)
from tokenworlds.core.errors import UserError, unknown

Described = TypeVar("Described")
Load = Callable[[str], type[Component]]
TAG = "type"
PACKAGE = "tokenworlds"
PYTHON_WORDS = {"True": True, "False": False, "None": None}


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
        own = {data[TAG].partition(":")[0]} if TAG in data else set()
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


def override(config: Described, assignments: Sequence[str], load: Load | None = None) -> Described:
    """A copy with each assignment `a.b.c=value` applied, in order.

    A value is JSON, or else a string. In place of a component's configuration, a string names
    another member of its family; a string with a colon is passed to `load`. A mapping takes new
    keys.
    """
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not path:
            raise UserError(f"{assignment!r} is no assignment: write a.b.c=value")
        config = assign(config, Any, path.strip().split("."), Value(text.strip(), load), "")
    return config


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """The right side of an assignment."""

    text: str
    load: Load | None

    def read(self) -> Any:
        """Parse JSON or a constant of Python; any other text stays a string."""
        if self.text in PYTHON_WORDS:
            return PYTHON_WORDS[self.text]
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return self.text

    def fit(self, present: Any, hint: Any, place: str) -> Any:
        """The value for a place, given its present value and type hint."""
        value = self.read()
        if isinstance(present, ConfigOf) and isinstance(value, str):
            return coerce(self.swap(present, value, place), hint, place)
        value = from_json(value, place=place)
        try:
            return coerce(value, hint, place)
        except UserError as error:
            return self.fit_text(hint, place, error)

    def swap(self, present: ConfigOf[Any], name: str, place: str) -> ConfigOf[Any]:
        """The configuration of another component; common fields keep their values."""
        own = self.load if ":" in name else None
        return adapt(present, own(name) if own else find_member(present, name, place), place)

    def fit_text(self, hint: Any, place: str, error: UserError) -> Any:
        """The value as a string, if it reads as JSON but the hint demands a string."""
        try:
            return coerce(self.text, hint, place)
        except UserError:
            raise error from None


def assign(config: Any, hint: Any, names: Sequence[str], value: Value, place: str) -> Any:
    """A copy of a nested value with the value at a path replaced."""
    if not names:
        return value.fit(config, hint, place)
    name, *rest = names
    children = children_of(config)
    if isinstance(config, Mapping) and not rest:
        children = {name: None, **children}
    if not children:
        raise UserError(f"{place} is a value ({config!r}) and has no field {name!r}")
    if name not in children:
        raise unknown(f"field of {place or type(config).__qualname__}", name, children)
    below = f"{place}.{name}" if place else name
    child = assign(children[name], hint_of(config, hint, name), rest, value, below)
    return checking(lambda: replace_child(config, name, child), below)


def children_of(config: Any) -> dict[str, Any]:
    """The children of a value by name; a leaf has none."""
    if dataclasses.is_dataclass(config):
        return {name: getattr(config, name) for name in settable(type(config))}
    if isinstance(config, Mapping):
        return dict(config)
    if isinstance(config, tuple):
        return {str(index): item for index, item in enumerate(config)}
    return {}


def hint_of(config: Any, hint: Any, name: str) -> Any:
    if dataclasses.is_dataclass(config):
        return get_type_hints(type(config))[name]
    return child_hint(hint, config, name)
