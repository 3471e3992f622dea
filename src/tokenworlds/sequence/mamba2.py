"""A stack of Mamba-2 layers (Dao and Gu, 2024): the sequence model of STEP-VQ-M and DRAMA."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import full_precision, widen
from tokenworlds.nets.blocks import RMSNorm
from tokenworlds.nets.fast import eager_on_device
from tokenworlds.nets.fast.attention import PlainDropout
from tokenworlds.nets.fast.mamba_step import MambaWeights, mix_step
from tokenworlds.nets.fast.state_space import (
    CausalConvolution,
    ResetMasks,
    StateSpace,
    mask_resets,
    scan_chunks,
    step_once,
)

DELTA_RANGE = (1e-3, 0.1)
DELTA_FLOOR = 1e-4
DECAY_RANGE = (1.0, 16.0)


@dataclass(frozen=True, slots=True)
class Mamba2State:
    """The last inputs of a layer's convolution, and its state matrix.

    `prepared` are the weights in the layout of steps on a device, as far as they are known.
    """

    taps: Float[Tensor, "B taps channels"]
    memory: Float[Tensor, "B heads state size"]
    prepared: "PreparedWeights | None" = None


class PreparedWeights:
    """A layer's weights in the layout of its steps; the carry passes them from step to step."""

    def __init__(self, layer: "Mamba2Layer") -> None:
        self.made_of = stamp(layer)
        projection = torch.cat([layer.gate.weight, layer.input.weight, layer.delta.weight])
        others = projection.new_zeros(len(projection) - layer.heads)
        self.weights = MambaWeights(
            projection=projection.t(),
            bias=torch.cat([others, layer.delta_bias]),
            sizes=(layer.inner, layer.inner + 2 * layer.state, layer.heads),
            kernel=layer.convolution.weight.t().unsqueeze(1),
            kernel_bias=layer.convolution.bias,
            delta_bias=widen(layer.delta_bias),
            rate=-widen(layer.log_rate).exp(),
            skip=widen(layer.skip),
            state=layer.state,
        )


Mamba2Carry = tuple[Mamba2State, ...]


class Mamba2(nn.Module, Component):
    """Pre-norm residual blocks of Mamba-2, and a last norm."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Mamba2"]):
        """`chunk` affects only the speed of a scan."""

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
        return tuple(block.layer.initial(batch) for block in self.stack())

    def step(
        self, x: Float[Tensor, "B D"], carry: Mamba2Carry
    ) -> tuple[Float[Tensor, "B D"], Mamba2Carry]:
        states = []
        for block, state in zip(self.stack(), carry, strict=True):
            x, after = block.step(x, state)
            states.append(after)
        return self.norm(x), tuple(states)

    def scan(
        self, x: Float[Tensor, "B T D"], reset: Bool[Tensor, "B T"], carry: Mamba2Carry
    ) -> tuple[Float[Tensor, "B T D"], Mamba2Carry]:
        masks = mask_resets(reset, self.taps, self.chunk, x.dtype)
        states = []
        for block, state in zip(self.stack(), carry, strict=True):
            y, after = block.layer.scan(block.norm(x), masks, state)
            x = x + block.dropout(y)
            states.append(after)
        return self.norm(x), tuple(states)

    def stack(self) -> Iterable["Mamba2Block"]:
        return cast(Iterable[Mamba2Block], self.blocks)


class Mamba2Block(nn.Module):
    """A layer, the norm before it and the dropout of its output."""

    def __init__(self, config: Mamba2.Config) -> None:
        super().__init__()
        self.norm = RMSNorm(config.width, eps=1e-5)
        self.layer = Mamba2Layer(config)
        self.dropout = PlainDropout(config.dropout)

    def step(
        self, x: Float[Tensor, "B D"], carry: Mamba2State
    ) -> tuple[Float[Tensor, "B D"], Mamba2State]:
        learns = self.training or torch.is_grad_enabled()
        if not learns and eager_on_device(x):
            return self.layer.step_onto(x, self.norm(x), carry)
        y, after = self.layer.step(self.norm(x), carry)
        return x + self.dropout(y), after


class Mamba2Layer(nn.Module):
    """One selective state space with its convolution, gate and norm (one group)."""

    def __init__(self, config: Mamba2.Config) -> None:
        super().__init__()
        width, heads, state = config.width, config.heads, config.state
        self.heads, self.state, self.inner = heads, state, config.expansion * width
        self.gate = nn.Linear(width, self.inner, bias=False)
        self.input = nn.Linear(width, self.inner + 2 * state, bias=False)
        self.delta = nn.Linear(width, heads, bias=False)
        self.convolution = CausalConvolution(self.inner + 2 * state, config.convolution)
        self.delta_bias = nn.Parameter(initial_delta_bias(heads))
        self.log_rate = nn.Parameter(torch.empty(heads).uniform_(*DECAY_RANGE).log())
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = RMSNorm(self.inner, eps=1e-5)
        self.output = nn.Linear(self.inner, width, bias=False)
        with torch.no_grad():
            self.output.weight.div_(math.sqrt(config.layers))

    def initial(self, batch: int) -> Mamba2State:
        size = self.inner // self.heads
        memory = widen(self.skip).new_zeros(batch, self.heads, self.state, size)
        return Mamba2State(self.convolution.initial(batch), memory)

    def step(
        self, x: Float[Tensor, "B D"], carry: Mamba2State
    ) -> tuple[Float[Tensor, "B D"], Mamba2State]:
        mixed, taps = self.convolution.step(self.input(x), carry.taps)
        inner, space = self._state_space(x, mixed)
        with full_precision(x):
            y, memory = step_once(inner, space, carry.memory)
        return self._finish(x, y), Mamba2State(taps, memory)

    def step_onto(
        self, x: Float[Tensor, "B D"], normed: Float[Tensor, "B D"], carry: Mamba2State
    ) -> tuple[Float[Tensor, "B D"], Mamba2State]:
        """The sum of `x` and a step on its norm, in few operations and without gradients."""
        prepared = carry.prepared
        if prepared is None or prepared.made_of != stamp(self):
            prepared = PreparedWeights(self)
        gated, taps, memory = mix_step(normed, carry.taps, carry.memory, prepared.weights)
        y = torch.addmm(x, self.norm(gated), self.output.weight.t())
        return y, Mamba2State(taps, memory, prepared)

    def scan(
        self, x: Float[Tensor, "B T D"], masks: ResetMasks, carry: Mamba2State
    ) -> tuple[Float[Tensor, "B T D"], Mamba2State]:
        mixed, extended = self.convolution.scan(self.input(x), carry.taps, masks.taps)
        inner, space = self._state_space(x, mixed)
        with full_precision(x):
            y, memory = scan_chunks(inner, space, carry.memory, masks)
        taps = extended[:, x.shape[1] :] * masks.last_taps
        return self._finish(x, y), Mamba2State(taps, memory)

    def _state_space(
        self, x: Float[Tensor, "*batch D"], mixed: Float[Tensor, "*batch channels"]
    ) -> tuple[Float[Tensor, "*batch heads size"], StateSpace]:
        """The input of each head, and the coefficients of the recurrence that reads it."""
        inner, write, read = torch.split(
            widen(functional.silu(mixed)), [self.inner, self.state, self.state], -1
        )
        delta = functional.softplus(widen(self.delta(x)) + widen(self.delta_bias))
        rate = -widen(self.log_rate).exp()
        space = StateSpace(delta, rate, write, read, widen(self.skip))
        return rearrange(inner, "... (h p) -> ... h p", h=self.heads), space

    def _finish(
        self, x: Float[Tensor, "*batch D"], y: Float[Tensor, "*batch heads size"]
    ) -> Float[Tensor, "*batch D"]:
        gated = functional.silu(self.gate(x)) * y.flatten(-2).to(x.dtype)
        result: Tensor = self.output(self.norm(gated))
        return result


def stamp(layer: Mamba2Layer) -> tuple[object, ...]:
    """Differs if the weights have changed or moved."""
    return (layer, *((parameter.device, parameter._version) for parameter in layer.parameters()))


def initial_delta_bias(heads: int) -> Float[Tensor, " heads"]:
    """Biases whose softplus is log-uniform over the range of step sizes."""
    low, high = (math.log(edge) for edge in DELTA_RANGE)
    delta = torch.empty(heads).uniform_(low, high).exp().clamp_min(DELTA_FLOOR)
    return delta + torch.log(-torch.expm1(-delta))
