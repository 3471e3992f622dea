"""Environments by name, their protocols, and many of them at once."""

from tokenworlds.envs.catalogue import (
    Family,
    best_return,
    canonical,
    default_protocol,
    describe,
    make,
)
from tokenworlds.envs.spec import EnvSpec
from tokenworlds.envs.vector import Finished, Outcome, VectorEnv

__all__ = [
    "EnvSpec",
    "Family",
    "Finished",
    "Outcome",
    "VectorEnv",
    "best_return",
    "canonical",
    "default_protocol",
    "describe",
    "make",
]
