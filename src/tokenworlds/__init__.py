"""Agents that learn from pixels inside a world model made of discrete tokens."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenworlds.agent import Agent

__all__ = ["Agent"]


def __getattr__(name: str) -> Any:
    """Import `Agent` on first use: the command line must start without torch."""
    if name == "Agent":
        from tokenworlds.agent import Agent

        return Agent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
