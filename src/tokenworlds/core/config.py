"""Typed configurations: choices live in a frozen `Config`, dimensions are passed to `build`.

A component is a class with a nested `Config`.
"""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar, cast

from tokenworlds.core.errors import UserError

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

    def build_from(self, **offered: Any) -> Built_co:
        """Build with those of the offered dimensions that the component takes.

        Members of a family thus fit the same places although some ask for less.
        """
        takes = dimensions_of(self)
        absent = [name for name, needed in takes.items() if needed and name not in offered]
        if absent:
            raise UserError(
                f"{type(self).owner.__name__} does not fit here: it needs {', '.join(absent)}, and "
                f"this place offers {', '.join(offered) or 'nothing'}"
            )
        return self.build(**{name: offered[name] for name in takes if name in offered})


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


def dimensions_of(config: ConfigOf[Any]) -> dict[str, bool]:
    """The dimensions that a component takes, and whether it needs each of them."""
    parameters = inspect.signature(type(config).owner.__init__).parameters.values()
    return {
        each.name: each.default is each.empty
        for each in parameters
        if each.kind is each.KEYWORD_ONLY
    }


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
