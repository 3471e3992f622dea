"""Agents that learn from pixels inside a world model made of discrete tokens.

>>> import tokenworlds as tw
>>> run = tw.train("step-vq-m", env="minatar:breakout", steps=20_000)
>>> agent = run.agent()
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenworlds.api.agent import Agent
    from tokenworlds.api.dream_env import DreamEnv, DreamVectorEnv
    from tokenworlds.api.environment import make_env
    from tokenworlds.api.run import Run
    from tokenworlds.api.training import train
    from tokenworlds.core.errors import UserError

__all__ = ["Agent", "DreamEnv", "DreamVectorEnv", "Run", "UserError", "make_env", "train"]

MODULES = {
    "Agent": "api.agent",
    "DreamEnv": "api.dream_env",
    "DreamVectorEnv": "api.dream_env",
    "Run": "api.run",
    "UserError": "core.errors",
    "make_env": "api.environment",
    "train": "api.training",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use: the command line must start without torch."""
    if name in MODULES:
        return getattr(importlib.import_module(f"{__name__}.{MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
