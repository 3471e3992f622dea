"""Faults of device placement, planted into STEP-VQ's mixer and prior to see them caught."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from tokenworlds.mixers.projection import Projection
from tokenworlds.nets.distributions import sample_from_probs
from tokenworlds.priors import factorised

finish = Projection._finish
CONSTANT = torch.ones(())


def without_device(self: Projection, mixed: Tensor, action: Tensor) -> Tensor:
    return finish(self, mixed + torch.zeros(mixed.shape), action)


def index_on_cpu(self: Projection, mixed: Tensor, action: Tensor) -> Tensor:
    return finish(self, mixed[torch.tensor([0])], action)


def constant(self: Projection, mixed: Tensor, action: Tensor) -> Tensor:
    # As a module would keep it that does not register it.
    return finish(self, mixed * CONSTANT.expand(mixed.shape[-1]), action)


def other_generator(probs: Tensor, generator: Any, temperature: float) -> Tensor:
    return sample_from_probs(probs, torch.Generator(), temperature)


PLANTS: dict[str, tuple[Any, str, Callable[..., Tensor]]] = {
    "a tensor made without a device": (Projection, "_finish", without_device),
    "an index on the CPU": (Projection, "_finish", index_on_cpu),
    "a generator of the CPU": (factorised, "sample_from_probs", other_generator),
    "a constant that is no buffer": (Projection, "_finish", constant),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    owner, attribute, fault = PLANTS[name]
    with patch.object(owner, attribute, fault):
        yield
