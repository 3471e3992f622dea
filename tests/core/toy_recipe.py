"""A nested description like a recipe, for the tests of descriptions and overrides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import toy_family.attention_stack
import toy_family.recurrent
from toy_family.recurrent import Recurrent

from tokenworlds.core.config import ConfigOf


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    batch: int = 16
    rate: float = 1e-4


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    sequence: ConfigOf[Any] = field(default_factory=Recurrent.Config)
    scales: Mapping[str, float] = field(default_factory=lambda: {"reward": 1.0, "termination": 1.0})


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    world: World = field(default_factory=World)
    phases: tuple[Phase, ...] = (Phase(), Phase(batch=32))
    learners: dict[str, Phase] = field(default_factory=lambda: {"world": Phase()})
    warmup: Phase | None = None
    fixed: Recurrent.Config = field(default_factory=Recurrent.Config)
    steps: int = 1000
    extra: Any = None


MODULES: dict[str, ModuleType] = {
    module.__name__: module
    for module in (toy_family.recurrent, toy_family.attention_stack, __import__(__name__))
}
