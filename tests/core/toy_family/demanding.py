"""A member that cannot be had by name alone."""

from dataclasses import dataclass

from tokenworlds.core.config import Component, ConfigOf


class Only(Component):
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Only"]):
        width: int
        depth: int
