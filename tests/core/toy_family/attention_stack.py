"""A member with two components, one of them named after the module."""

from dataclasses import dataclass

from tokenworlds.core.config import Component, ConfigOf


class Attention(Component):
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Attention"]):
        heads: int = 1


class AttentionStack(Component):
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["AttentionStack"]):
        width: int = 16
        layers: int = 2
        heads: int = 4
