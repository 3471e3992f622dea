"""A member with a field that has no default."""

from dataclasses import dataclass

from tokenworlds.core.config import Component, ConfigOf


class Only(Component):
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Only"]):
        width: int
        depth: int
