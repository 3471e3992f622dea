"""A stack of Mamba-2 layers as a sequence model (STEP-VQ-M and DRAMA)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.nets.mamba2 import Boundaries, Mamba2Layer, Mamba2State, find_boundaries
from tokenworlds.nets.norms import RMSNorm

Mamba2Carry = tuple[Mamba2State, ...]


class Mamba2(nn.Module, Component):
    """Pre-norm residual blocks of Mamba-2, and a last norm."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Mamba2"]):
        """`chunk` changes the speed of a scan and nothing else."""

        width: int = 512
        layers: int = 4
        heads: int = 4
        state: int = 16
        convolution: int = 4
        expansion: int = 2
        chunk: int = 32
        dropout: float = 0.1

    def __init__(self, config: Config) -> None:
        super().__init__()
        inner = config.expansion * config.width
        if inner % config.heads:
            raise UserError(
                f"heads={config.heads} of Mamba-2 must divide expansion x width = {inner}"
            )
        self.width = config.width
        self.taps, self.chunk = config.convolution - 1, config.chunk
        self.blocks = nn.ModuleList(Mamba2Block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width, eps=1e-5)

    def initial(self, batch: int, steps: int | None = None) -> Mamba2Carry:
        """The carry of no history; its size does not depend on the steps to come."""
        return tuple(block.layer.initial(batch) for block in self.stack())

    def step(
        self, x: Float[Tensor, "B D"], carry: Mamba2Carry
    ) -> tuple[Float[Tensor, "B D"], Mamba2Carry]:
        """One step."""
        states = []
        for block, state in zip(self.stack(), carry, strict=True):
            x, after = block.step(x, state)
            states.append(after)
        return self.norm(x), tuple(states)

    def scan(
        self, x: Float[Tensor, "B T D"], reset: Bool[Tensor, "B T"], carry: Mamba2Carry
    ) -> tuple[Float[Tensor, "B T D"], Mamba2Carry]:
        """All steps at once; where `reset` is set the history is forgotten before that step."""
        boundaries = find_boundaries(reset, self.taps, self.chunk, x.dtype)
        states = []
        for block, state in zip(self.stack(), carry, strict=True):
            x, after = block.scan(x, boundaries, state)
            states.append(after)
        return self.norm(x), tuple(states)

    def stack(self) -> Iterable["Mamba2Block"]:
        """The blocks in order."""
        return cast(Iterable[Mamba2Block], self.blocks)


class Mamba2Block(nn.Module):
    """A layer behind a norm, added to what it read."""

    def __init__(self, config: Mamba2.Config) -> None:
        super().__init__()
        self.norm = RMSNorm(config.width, eps=1e-5)
        self.layer = Mamba2Layer(
            width=config.width,
            heads=config.heads,
            state=config.state,
            convolution=config.convolution,
            expansion=config.expansion,
            layers=config.layers,
        )
        self.dropout = nn.Dropout(config.dropout)

    def step(
        self, x: Float[Tensor, "B D"], state: Mamba2State
    ) -> tuple[Float[Tensor, "B D"], Mamba2State]:
        """One step."""
        y, state = self.layer.step(self.norm(x), state)
        return x + self.dropout(y), state

    def scan(
        self, x: Float[Tensor, "B T D"], boundaries: Boundaries, state: Mamba2State
    ) -> tuple[Float[Tensor, "B T D"], Mamba2State]:
        """All steps."""
        y, state = self.layer.scan(self.norm(x), boundaries, state)
        return x + self.dropout(y), state
