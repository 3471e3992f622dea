"""The Mamba-2 layer (Dao and Gu, 2024): a selective state space, by chunks or step by step."""

import math
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.precision import widen, widest
from tokenworlds.nets.causal_convolution import CausalConvolution
from tokenworlds.nets.norms import RMSNorm

DELTA_RANGE = (1e-3, 0.1)
DELTA_FLOOR = 1e-4
DECAY_RANGE = (1.0, 16.0)


@dataclass(frozen=True, slots=True)
class Mamba2State:
    """What one layer remembers: the last raw inputs of its convolution, and its state matrix."""

    taps: Float[Tensor, "B taps channels"]
    memory: Float[Tensor, "B heads state size"]


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Where history is cut inside a scan, as factors of zero and one; the same for every layer.

    `within` says whether step s of a chunk is still remembered at step t of it, `entering` whether
    the state before the chunk is; `lags` the same for each tap of the convolution at each step, and
    `left` for the taps that are handed on.
    """

    within: Float[Tensor, "B chunks 1 length length"]
    entering: Float[Tensor, "B chunks 1 length"]
    lags: Float[Tensor, "B T taps"]
    left: Float[Tensor, "B taps 1"]


def find_boundaries(
    reset: Bool[Tensor, "B T"], taps: int, chunk: int, dtype: torch.dtype
) -> Boundaries:
    """The cuts that resets make, for chunks of at most this length."""
    segment = functional.pad(reset.long().cumsum(1), (taps, 0))
    windows = segment.unfold(1, taps + 1, 1)
    chunked = split_chunks(reset.long(), chunk).cumsum(2)
    within = (chunked[..., :, None] == chunked[..., None, :]).tril()
    last = segment[:, reset.shape[1] :]
    return Boundaries(
        within=within.unsqueeze(2).to(widest(dtype)),
        entering=(chunked == 0).unsqueeze(2).to(widest(dtype)),
        lags=(windows[..., :-1] == windows[..., -1:]).to(dtype),
        left=(last == segment[:, -1:]).unsqueeze(2).to(dtype),
    )


def split_chunks(
    x: Shaped[Tensor, "B T *rest"], chunk: int
) -> Shaped[Tensor, "B chunks length *rest"]:
    """Cut time into equal chunks no longer than asked, padding the end with zeros."""
    steps = x.shape[1]
    count = math.ceil(steps / chunk)
    length = math.ceil(steps / count)
    if count * length != steps:
        x = functional.pad(x, (0, 0) * (x.dim() - 2) + (0, count * length - steps))
    return rearrange(x, "b (c t) ... -> b c t ...", c=count)


def remaining(log_decay: Float[Tensor, "*rest length"]) -> Float[Tensor, "*rest length length"]:
    """What is left at step t (row) of step s (column): exp of the log decays after s, up to t.

    Each sum has only its own terms: differences of one running sum lose digits where decay is
    strong. Above the diagonal stands 1, to be masked.
    """
    length = log_decay.shape[-1]
    later = torch.ones(length, length, dtype=log_decay.dtype, device=log_decay.device).tril(-1)
    return (log_decay[..., :, None] * later).cumsum(-2).exp()


@dataclass(frozen=True, slots=True)
class Dynamics:
    """The recurrence of every step: memory = exp(delta rate) memory + delta write x,
    y = read memory + skip x."""

    delta: Float[Tensor, "*batch heads"]
    rate: Float[Tensor, " heads"]
    write: Float[Tensor, "*batch state"]
    read: Float[Tensor, "*batch state"]
    skip: Float[Tensor, " heads"]


def scan_chunks(
    x: Float[Tensor, "B T heads size"],
    dynamics: Dynamics,
    memory: Float[Tensor, "B heads state size"],
    boundaries: Boundaries,
) -> tuple[Float[Tensor, "B T heads size"], Float[Tensor, "B heads state size"]]:
    """State space duality: products of matrices inside chunks, the recurrence between them.

    The step size, the skip connection and the masks go into the small matrices, so that the large
    `x` is only ever the right side of a product. Padded steps have step size zero and no effect.
    """
    steps, length = x.shape[1], boundaries.within.shape[-1]
    values = rearrange(split_chunks(x, length), "b c t h p -> b c h t p").contiguous()
    delta = rearrange(split_chunks(dynamics.delta, length), "b c t h -> b c h t")
    write, read = split_chunks(dynamics.write, length), split_chunks(dynamics.read, length)
    log_decay = delta * dynamics.rate[:, None]
    left = remaining(log_decay) * boundaries.within * delta[..., None, :]
    mixing = (read @ write.mT).unsqueeze(2) * left + diagonals(dynamics.skip, length)
    written = (left[..., -1, :, None] * write.unsqueeze(2)).mT @ values
    kept = log_decay.cumsum(-1).exp() * boundaries.entering
    entering, memory = pass_on(written, kept[..., -1, None, None], memory)
    reading = kept[..., None] * read.unsqueeze(2)
    # One sum of two products, without a third tensor as large as the values.
    y = torch.bmm(reading.flatten(0, 2), entering.flatten(0, 2))
    y.baddbmm_(mixing.flatten(0, 2), values.flatten(0, 2))
    y = rearrange(y, "(b c h) t p -> b (c t) h p", b=values.shape[0], c=values.shape[1])
    return y[:, :steps], memory


def diagonals(values: Float[Tensor, " heads"], length: int) -> Float[Tensor, "heads length length"]:
    """For each head, its value times the unit matrix."""
    return values[:, None, None] * torch.eye(length, dtype=values.dtype, device=values.device)


def pass_on(
    written: Float[Tensor, "B chunks heads state size"],
    kept: Float[Tensor, "B chunks heads 1 1"],
    memory: Float[Tensor, "B heads state size"],
) -> tuple[Float[Tensor, "B chunks heads state size"], Float[Tensor, "B heads state size"]]:
    """The state that enters each chunk, and the one that leaves the last."""
    entering = []
    for chunk_written, chunk_kept in zip(written.unbind(1), kept.unbind(1), strict=True):
        entering.append(memory)
        memory = torch.addcmul(chunk_written, chunk_kept, memory)
    return torch.stack(entering, 1), memory


def step_once(
    x: Float[Tensor, "B heads size"],
    dynamics: Dynamics,
    memory: Float[Tensor, "B heads state size"],
) -> tuple[Float[Tensor, "B heads size"], Float[Tensor, "B heads state size"]]:
    """The recurrence itself, into a new state."""
    memory = memory * (dynamics.delta * dynamics.rate).exp()[..., None, None]
    scaled = x * dynamics.delta[..., None]
    memory.addcmul_(dynamics.write[:, None, :, None], scaled[:, :, None])
    y = (dynamics.read[:, None, None] @ memory).squeeze(2)
    return torch.addcmul(y, x, dynamics.skip[:, None]), memory


class Mamba2Layer(nn.Module):
    """One selective state space with its convolution, gate and norm (one group).

    The vectors `log_rate`, `delta_bias` and `skip` are not for weight decay.
    """

    def __init__(
        self, width: int, heads: int, state: int, convolution: int, expansion: int, layers: int
    ) -> None:
        super().__init__()
        self.heads, self.state, self.inner = heads, state, expansion * width
        self.gate = nn.Linear(width, self.inner, bias=False)
        self.input = nn.Linear(width, self.inner + 2 * state, bias=False)
        self.delta = nn.Linear(width, heads, bias=False)
        self.convolution = CausalConvolution(self.inner + 2 * state, convolution)
        self.delta_bias = nn.Parameter(initial_delta_bias(heads))
        self.log_rate = nn.Parameter(torch.empty(heads).uniform_(*DECAY_RANGE).log())
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = RMSNorm(self.inner, eps=1e-5)
        self.output = nn.Linear(self.inner, width, bias=False)
        with torch.no_grad():
            self.output.weight.div_(math.sqrt(layers))

    def initial(self, batch: int) -> Mamba2State:
        """No history."""
        size = self.inner // self.heads
        memory = widen(self.skip).new_zeros(batch, self.heads, self.state, size)
        return Mamba2State(self.convolution.initial(batch), memory)

    def step(
        self, x: Float[Tensor, "B D"], carry: Mamba2State
    ) -> tuple[Float[Tensor, "B D"], Mamba2State]:
        """One step of the recurrence."""
        mixed, taps = self.convolution.step(self.input(x), carry.taps)
        inner, dynamics = self.read_input(x, mixed)
        with torch.autocast(x.device.type, enabled=False):
            y, memory = step_once(inner, dynamics, carry.memory)
        return self.finish(x, y), Mamba2State(taps, memory)

    def scan(
        self, x: Float[Tensor, "B T D"], boundaries: Boundaries, carry: Mamba2State
    ) -> tuple[Float[Tensor, "B T D"], Mamba2State]:
        """All steps, by chunks."""
        mixed, extended = self.convolution.scan(self.input(x), carry.taps, boundaries.lags)
        inner, dynamics = self.read_input(x, mixed)
        with torch.autocast(x.device.type, enabled=False):
            y, memory = scan_chunks(inner, dynamics, carry.memory, boundaries)
        taps = extended[:, x.shape[1] :] * boundaries.left
        return self.finish(x, y), Mamba2State(taps, memory)

    def read_input(
        self, x: Float[Tensor, "*batch D"], mixed: Float[Tensor, "*batch channels"]
    ) -> tuple[Float[Tensor, "*batch heads size"], Dynamics]:
        """The input of each head, and what the recurrence does with it."""
        inner, write, read = torch.split(
            widen(functional.silu(mixed)), [self.inner, self.state, self.state], -1
        )
        delta = functional.softplus(widen(self.delta(x)) + widen(self.delta_bias))
        rate = -widen(self.log_rate).exp()
        dynamics = Dynamics(delta, rate, write, read, widen(self.skip))
        return rearrange(inner, "... (h p) -> ... h p", h=self.heads), dynamics

    def finish(
        self, x: Float[Tensor, "*batch D"], y: Float[Tensor, "*batch heads size"]
    ) -> Float[Tensor, "*batch D"]:
        """Gate, norm (in this order) and output."""
        gated = functional.silu(self.gate(x)) * y.flatten(-2).to(x.dtype)
        result: Tensor = self.output(self.norm(gated))
        return result


def initial_delta_bias(heads: int) -> Float[Tensor, " heads"]:
    """Biases whose softplus is spread evenly over the logarithm of the range of step sizes."""
    low, high = (math.log(edge) for edge in DELTA_RANGE)
    delta = torch.empty(heads).uniform_(low, high).exp().clamp_min(DELTA_FLOOR)
    return delta + torch.log(-torch.expm1(-delta))
