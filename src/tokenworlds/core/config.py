"""Typed configurations: choices live in a frozen `Config`, dimensions are passed to `build`.

A component is a class with a nested `Config`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar, cast

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
