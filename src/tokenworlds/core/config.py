"""Typed configurations: choices live in a frozen `Config`, facts arrive at `build`."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar, cast

Built_co = TypeVar("Built_co", covariant=True)
Described = TypeVar("Described")


class ConfigOf(Generic[Built_co]):
    """The choices of one component; `build` adds the facts and returns the component."""

    __slots__ = ()
    owner: ClassVar[type[Any]]

    def build(self, **facts: Any) -> Built_co:
        """Construct the owner; a fact that is also a choice is an error."""
        overlap = facts.keys() & field_names(self)
        if overlap:
            raise TypeError(
                f"{sorted(overlap)} are choices of {type(self).__qualname__}, not facts"
            )
        built: Built_co = type(self).owner(self, **facts)
        return built


class Component:
    """Mixin that ties a class to the `Config` nested in it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        config = cls.__dict__.get("Config")
        if config is not None:
            config.owner = cls


def field_names(config: object) -> set[str]:
    """Names of the fields of a dataclass instance."""
    return {field.name for field in dataclasses.fields(config)}  # type: ignore[arg-type]


def replace_at(config: Described, path: str, value: Any) -> Described:
    """A copy of a nested description with the value at a dotted path exchanged."""
    head, _, rest = path.partition(".")
    child = value if not rest else replace_at(get_child(config, head), rest, value)
    if isinstance(config, Mapping):
        return cast(Described, {**config, head: child})
    return cast(Described, dataclasses.replace(cast(Any, config), **{head: child}))


def get_child(config: Any, name: str) -> Any:
    """The value of a field or of a mapping's key."""
    return config[name] if isinstance(config, Mapping) else getattr(config, name)


def variant(config: Described, changes: Mapping[str, Any]) -> Described:
    """A copy with several dotted paths exchanged, in the order given."""
    for path, value in changes.items():
        config = replace_at(config, path, value)
    return config
