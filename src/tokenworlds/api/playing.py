"""Acting step after step: the state of an agent between observations."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, UInt8
from torch import Generator, Tensor

from tokenworlds.agent import Agent as AgentModule
from tokenworlds.agent import AgentCarry
from tokenworlds.core.errors import UserError


class Playing:
    """What an agent remembers of the running episodes, one for each row of a batch."""

    def __init__(self, module: AgentModule) -> None:
        self._module = module
        self._carry: AgentCarry | None = None
        self._first: Bool[np.ndarray, " N"] | None = None

    def reset(self, rows: Any = None) -> None:
        """The next observation opens an episode; with a mask, only those of its rows do."""
        if rows is None:
            self._carry = self._first = None
        elif self._first is not None:
            self._first = self._first | check_flags(rows, len(self._first))

    def act(
        self,
        frames: UInt8[np.ndarray, "N H W C"],
        first: Any,
        generator: Generator,
        temperature: float,
    ) -> Tensor:
        """An action for each frame. Where `first` is set, the frame opens an episode."""
        if self._first is None:
            self._first = np.ones(len(frames), bool)
        if len(self._first) != len(frames):
            raise UserError(
                f"{len(frames)} observations follow {len(self._first)}: call reset() before the "
                "number of environments changes"
            )
        opens = self._first if first is None else self._first | check_flags(first, len(frames))
        seen = torch.from_numpy(np.ascontiguousarray(frames))
        action, self._carry = self._module.act(
            seen, torch.from_numpy(opens), self._carry, generator, temperature
        )
        self._first = np.zeros(len(frames), bool)
        return action


def check_flags(flags: Any, count: int) -> Bool[np.ndarray, " N"]:
    """One flag for each row; a single one counts for all."""
    array = np.asarray(flags)
    if array.dtype != np.bool_ or array.shape not in ((), (count,)):
        raise UserError(
            f"the flags are {array.dtype} of shape {array.shape}: {count} observations take a bool "
            f"or bools of shape ({count},)"
        )
    return np.broadcast_to(array, (count,)).copy()
