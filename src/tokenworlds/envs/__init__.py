"""Environments by name and protocol, one at a time or many at once."""

from tokenworlds.envs.catalogue import (
    EnvSpec,
    best_return,
    canonical,
    default_protocol,
    families,
    make,
)
from tokenworlds.envs.game import Family, Game
from tokenworlds.envs.vector import Finished, VectorEnv, VectorStep

__all__ = [
    "EnvSpec",
    "Family",
    "Finished",
    "Game",
    "VectorEnv",
    "VectorStep",
    "best_return",
    "canonical",
    "default_protocol",
    "families",
    "make",
]
