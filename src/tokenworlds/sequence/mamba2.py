"""A stack of Mamba-2 layers as a sequence model (STEP-VQ-M and DRAMA)."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.nets.mamba2 import Mamba2Layer, Mamba2State, at_least_float32, find_boundaries

Mamba2Carry = tuple[Mamba2State, ...]


class Mamba2(nn.Module, Component):
    """Pre-norm residual blocks of Mamba-2 and a last norm."""

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
        if config.expansion * config.width % config.heads:
            raise UserError(
                f"heads={config.heads} must divide the inner width "
                f"{config.expansion * config.width} of Mamba-2"
            )
        self.width, self.chunk = config.width, config.chunk
        self.blocks = nn.ModuleList(Mamba2Block(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=1e-5)

    def initial(self, batch: int, steps: int | None = None) -> Mamba2Carry:
        """The carry of no history; its size does not depend on the steps to come."""
        return tuple(block.layer.initial(batch) for block in self.blocks)

    def step(
        self, x: Float[Tensor, "B D"], carry: Mamba2Carry
    ) -> tuple[Float[Tensor, "B D"], Mamba2Carry]:
        """One step."""
        states = []
        for block, state in zip(self.blocks, carry, strict=True):
            y, state = block.layer.step(block.norm(x), state)
            x = x + block.dropout(y)
            states.append(state)
        return self.norm(x), tuple(states)

    def scan(
        self, x: Float[Tensor, "B T D"], reset: Bool[Tensor, "B T"], carry: Mamba2Carry
    ) -> tuple[Float[Tensor, "B T D"], Mamba2Carry]:
        """All steps at once; where `reset` is set the history is forgotten before that step."""
        taps = carry[0].taps.shape[1]
        boundaries = find_boundaries(reset, taps, self.chunk, at_least_float32(x).dtype)
        states = []
        for block, state in zip(self.blocks, carry, strict=True):
            y, state = block.layer.scan(block.norm(x), boundaries, state)
            x = x + block.dropout(y)
            states.append(state)
        return self.norm(x), tuple(states)


class Mamba2Block(nn.Module):
    """What stands between two residual sums."""

    def __init__(self, config: Mamba2.Config) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(config.width, eps=1e-5)
        self.layer = Mamba2Layer(
            config.width,
            config.heads,
            config.state,
            config.convolution,
            config.expansion,
            config.layers,
        )
        self.dropout = nn.Dropout(config.dropout)
