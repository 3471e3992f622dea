"""Typed configurations: choices live in a frozen `Config`, dimensions are passed to `build`.

A component is a class with a nested `Config`. A family is the components of a package, one per
file, or those of one file that share a base class; its members replace each other by name.
"""

import dataclasses
import importlib
import pkgutil
import re
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar, cast, get_type_hints

from tokenworlds.core.errors import UserError, unknown

Built_co = TypeVar("Built_co", covariant=True)
Described = TypeVar("Described")


class ConfigOf(Generic[Built_co]):
    """The choices of one component; `build` adds the dimensions and returns the component."""

    __slots__ = ()
    owner: ClassVar[type[Any]]

    def build(self, **dimensions: Any) -> Built_co:
        overlap = dimensions.keys() & settable(type(self))
        if overlap:
            raise TypeError(
                f"{sorted(overlap)} are choices of {type(self).__qualname__}, not dimensions"
            )
        built: Built_co = type(self).owner(self, **dimensions)
        return built


class Component:
    """Mixin that ties a class to the `Config` nested in it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        config = cls.__dict__.get("Config")
        if config is not None:
            config.owner = cls


def variant(config: Described, changes: Mapping[str, Any]) -> Described:
    """A copy with the values at several dotted paths replaced, in the order given."""
    for path, value in changes.items():
        config = replace_at(config, path, value)
    return config


def replace_at(config: Described, path: str, value: Any) -> Described:
    head, _, rest = path.partition(".")
    child = value if not rest else replace_at(get_child(config, head), rest, value)
    return cast(Described, replace_child(config, head, child))


def replace_child(config: Any, name: str, child: Any) -> Any:
    """A copy with one field, key or item replaced."""
    if isinstance(config, tuple):
        return (*config[: int(name)], child, *config[int(name) + 1 :])
    if isinstance(config, Mapping):
        return {**config, name: child}
    return dataclasses.replace(config, **{name: child})


def get_child(config: Any, name: str) -> Any:
    return config[name] if isinstance(config, Mapping) else getattr(config, name)


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


def settable(kind: type[Any]) -> list[str]:
    """Names of the fields that `__init__` takes."""
    return [field.name for field in dataclasses.fields(kind) if field.init]


def required(kind: type[Any]) -> set[str]:
    """Names of the fields without a default."""
    absent = dataclasses.MISSING
    return {
        field.name
        for field in dataclasses.fields(kind)
        if field.init and field.default is absent and field.default_factory is absent
    }
