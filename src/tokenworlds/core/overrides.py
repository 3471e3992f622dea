"""Change a configuration by dotted assignments, and replace a component by another of its family.

A family is the components of a package, one per file, or those of one file; its members replace
each other by name.
"""

import dataclasses
import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeVar, get_type_hints

from tokenworlds.core.config import Component, ConfigOf, replace_child, required, settable
from tokenworlds.core.description import checking, child_hint, coerce, from_json
from tokenworlds.core.errors import UserError, unknown

Described = TypeVar("Described")
Load = Callable[[str], type[Component]]
PYTHON_WORDS = {"True": True, "False": False, "None": None}


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


def adapt(config: ConfigOf[Any], owner: type[Component], place: str) -> ConfigOf[Any]:
    """A component's default configuration; fields of equal name and type keep their values."""
    kind = config_class(owner)
    if kind is None:
        raise UserError(f"{place} takes a component, and {owner.__qualname__} has no Config")
    kept = {name: getattr(config, name) for name in common_fields(type(config), kind)}
    absent = sorted(required(kind) - kept.keys())
    if absent:
        raise UserError(f"{place}: {owner.__qualname__} has no default for {', '.join(absent)}")
    result: ConfigOf[Any] = kind(**kept)
    return result


def find_member(config: ConfigOf[Any], name: str, place: str) -> type[Component]:
    """The component of this name in the configuration's family."""
    package = family_package(type(config).owner)
    stem = name.replace("-", "_")
    if package is None:
        siblings = components_beside(type(config).owner)
        if stem not in siblings:
            raise unknown(f"component for {place}", name, siblings)
        return siblings[stem]
    found = stem in module_names(package)
    owner = main_component(import_member(package, stem)) if found else None
    if owner is None:
        raise unknown(f"component for {place}", name, members(package))
    return owner


def family_package(owner: type[Component]) -> ModuleType | None:
    """The package of a component whose file is named after it; None for any other component."""
    package, _, stem = owner.__module__.rpartition(".")
    named = owner.__name__.lower().startswith(stem.replace("_", ""))
    if not package or not named or main_component(sys.modules[owner.__module__]) is not owner:
        return None
    return importlib.import_module(package)


def components_beside(owner: type[Component]) -> dict[str, type[Component]]:
    """The components of one file by their names in snake case; where the owner has a base class in
    that file, those that share it."""
    module = sys.modules.get(owner.__module__)
    defined = components(module) if module is not None else [owner]
    bases = tuple(base for base in owner.__mro__[1:] if base.__module__ == owner.__module__)
    kin = [component for component in defined if not bases or issubclass(component, bases)]
    return {snake_case(component.__name__): component for component in kin}


def snake_case(name: str) -> str:
    """`DynamicFrequency` as `dynamic_frequency`, `MLPReward` as `mlp_reward`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def import_member(package: ModuleType, name: str) -> ModuleType:
    try:
        return importlib.import_module(f"{package.__name__}.{name}")
    except ModuleNotFoundError as error:
        raise UserError(f"{name} needs {error.name}, which is not installed") from None


def members(package: ModuleType) -> list[str]:
    """Names of the components that can be imported."""
    return [name for name in module_names(package) if importable_component(package, name)]


def importable_component(package: ModuleType, name: str) -> bool:
    try:
        return main_component(import_member(package, name)) is not None
    except UserError:
        return False


def module_names(package: ModuleType) -> list[str]:
    """Names of a package's public modules."""
    found = pkgutil.iter_modules(package.__path__)
    return [module.name for module in found if not module.name.startswith("_")]


def main_component(module: ModuleType) -> type[Component] | None:
    """The component that a module is named after, else the only one it defines."""
    defined = components(module)
    stem = module.__name__.rpartition(".")[2].replace("_", "")
    named = [owner for owner in defined if owner.__name__.lower() == stem]
    candidates = named or defined
    return candidates[0] if len(candidates) == 1 else None


def components(module: ModuleType) -> list[type[Component]]:
    """The components with a configuration that a module defines."""
    return [value for value in vars(module).values() if is_component(value, module)]


def is_component(value: Any, module: ModuleType) -> bool:
    here = isinstance(value, type) and value.__module__ == module.__name__
    return here and issubclass(value, Component) and config_class(value) is not None


def config_class(owner: type[Component]) -> type[Any] | None:
    kind: Any = vars(owner).get("Config")
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        return None
    return kind if issubclass(kind, ConfigOf) else None


def common_fields(old: type[Any], new: type[Any]) -> list[str]:
    """Fields of equal name and type."""
    old_hints, new_hints = get_type_hints(old), get_type_hints(new)
    return [name for name in settable(new) if old_hints.get(name) == new_hints[name]]
