"""Two small components that share a file."""

from dataclasses import dataclass

from tokenworlds.core.config import Component, ConfigOf


class Uniform(Component):
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Uniform"]):
        temperature: float = 1.0


class DynamicFrequency(Component):
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["DynamicFrequency"]):
        temperature: float = 10.0
