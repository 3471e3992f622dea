"""Environments by name and protocol, one at a time or many at once."""

from tokenworlds.envs.catalogue import EnvSpec, make
from tokenworlds.envs.options import with_options
from tokenworlds.envs.own import named_env
from tokenworlds.envs.vector import VectorEnv

__all__ = ["EnvSpec", "VectorEnv", "make", "named_env", "with_options"]
