"""Environments by name and protocol, one at a time or many at once."""

from tokenworlds.envs.catalogue import EnvSpec, make
from tokenworlds.envs.vector import VectorEnv

__all__ = ["EnvSpec", "VectorEnv", "make"]
