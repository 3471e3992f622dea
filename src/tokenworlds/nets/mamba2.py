"""The Mamba-2 layer (Dao and Gu, 2024): a selective state space, by chunks or step by step."""

import math
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

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

    within: Float[Tensor, "B chunks 1 size size"]
    entering: Float[Tensor, "B chunks 1 size"]
    lags: Float[Tensor, "B T taps"]
    left: Float[Tensor, "B taps 1"]


def find_boundaries(
    reset: Bool[Tensor, "B T"], taps: int, chunk: int, dtype: torch.dtype
) -> Boundaries:
    """The cuts that resets make, for chunks of at most this length."""
    segment = functional.pad(reset.long().cumsum(1), (taps, 0))
    windows = segment.unfold(1, taps + 1, 1)
    chunked = split_chunks(reset.long(), chunk).cumsum(2)
    order = torch.ones(chunked.shape[2], chunked.shape[2], dtype=torch.bool, device=reset.device)
    within = (chunked[..., :, None] == chunked[..., None, :]) & order.tril()
    return Boundaries(
        within=within.unsqueeze(2).to(dtype),
        entering=(chunked == 0).unsqueeze(2).to(dtype),
        lags=(windows[..., :-1] == windows[..., -1:]).to(dtype),
        left=(segment[:, -taps:, None] == segment[:, -1:, None]).to(dtype),
    )


def split_chunks(x: Tensor, chunk: int) -> Tensor:
    """Cut time (the second axis) into equal chunks no longer than asked, padding with zeros."""
    steps = x.shape[1]
    count = math.ceil(steps / chunk)
    size = math.ceil(steps / count)
    if count * size != steps:
        x = functional.pad(x, (0, 0) * (x.dim() - 2) + (0, count * size - steps))
    return x.unflatten(1, (count, size))


def remaining(log_decay: Float[Tensor, "*rest size"]) -> Float[Tensor, "*rest size size"]:
    """What is left at step t (row) of step s (column): exp of the log decays after s, up to t.

    Each sum has only its own terms: differences of one running sum lose digits where decay is
    strong. Above the diagonal stands 1, to be masked.
    """
    size = log_decay.shape[-1]
    later = torch.ones(size, size, dtype=log_decay.dtype, device=log_decay.device).tril(-1)
    return (log_decay[..., :, None] * later).cumsum(-2).exp()


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision is widened: decays and states need the digits."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def scan_chunks(
    x: Float[Tensor, "B T heads size"],
    delta: Float[Tensor, "B T heads"],
    rate: Float[Tensor, " heads"],
    write: Float[Tensor, "B T state"],
    read: Float[Tensor, "B T state"],
    skip: Float[Tensor, " heads"],
    memory: Float[Tensor, "B heads state size"],
    boundaries: Boundaries,
) -> tuple[Float[Tensor, "B T heads size"], Float[Tensor, "B heads state size"]]:
    """State space duality: products of matrices inside chunks, a recurrence between them.

    The step size, the skip connection and the masks go into the small matrices, so that the large
    `x` is only ever the right side of a product.
    """
    steps, chunk = x.shape[1], boundaries.within.shape[-1]
    x, write, read = (split_chunks(part, chunk) for part in (x, write, read))
    x = rearrange(x, "b c t h p -> b c h t p").contiguous()
    delta = rearrange(split_chunks(delta, chunk), "b c t h -> b c h t")
    log_decay = delta * rate[:, None]
    left = remaining(log_decay) * boundaries.within * delta[..., None, :]
    mixing = torch.einsum("bctn,bcsn->bcts", read, write).unsqueeze(2) * left
    mixing = mixing + torch.diag_embed(skip[:, None].expand(-1, chunk))
    written = torch.einsum("bchs,bcsn->bchns", left[..., -1, :], write) @ x
    since_entry = log_decay.cumsum(-1).exp() * boundaries.entering
    entering, memory = pass_on(written, since_entry[..., -1, None, None], memory)
    reading = since_entry[..., None] * read.unsqueeze(2)
    y = mixing @ x + reading @ entering
    return rearrange(y, "b c h t p -> b (c t) h p")[:, :steps], memory


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


class CausalConvolution(nn.Module):
    """Each channel on its own, over the present and the last few steps."""

    def __init__(self, channels: int, length: int) -> None:
        super().__init__()
        bound = length**-0.5
        self.weight = nn.Parameter(torch.empty(length, channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound))

    def scan(
        self, x: Float[Tensor, "B T D"], taps: Float[Tensor, "B taps D"], boundaries: Boundaries
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B taps D"]]:
        """All steps; taps from before a reset count as zero."""
        steps, past = x.shape[1], taps.shape[1]
        extended = torch.cat([taps, x], 1)
        y = torch.addcmul(self.bias, x, self.weight[-1])
        for lag, weight in enumerate(self.weight[:-1]):
            tap = extended[:, lag : lag + steps] * boundaries.lags[..., lag, None]
            y = torch.addcmul(y, tap, weight)
        return y, extended[:, -past:] * boundaries.left

    def step(
        self, x: Float[Tensor, "B D"], taps: Float[Tensor, "B taps D"]
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B taps D"]]:
        """One step."""
        window = torch.cat([taps, x[:, None]], 1)
        return (window * self.weight).sum(1) + self.bias, window[:, 1:]


class Mamba2Layer(nn.Module):
    """One selective state space with its convolution, gate and norm (one group).

    Vectors (`log_rate`, `delta_bias`, `skip`) are not to be shrunk by weight decay.
    """

    def __init__(
        self, width: int, heads: int, state: int, convolution: int, expansion: int, layers: int
    ) -> None:
        super().__init__()
        self.heads, self.state, self.inner = heads, state, expansion * width
        channels = self.inner + 2 * state
        self.gate = nn.Linear(width, self.inner, bias=False)
        self.input = nn.Linear(width, channels, bias=False)
        self.delta = nn.Linear(width, heads, bias=False)
        self.convolution = CausalConvolution(channels, convolution)
        self.delta_bias = nn.Parameter(initial_delta_bias(heads))
        self.log_rate = nn.Parameter(torch.empty(heads).uniform_(*DECAY_RANGE).log())
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = nn.RMSNorm(self.inner, eps=1e-5)
        self.output = nn.Linear(self.inner, width, bias=False)
        with torch.no_grad():
            self.output.weight.div_(math.sqrt(layers))

    def initial(self, batch: int) -> Mamba2State:
        """No history."""
        weight = self.convolution.weight
        size = self.inner // self.heads
        memory = at_least_float32(weight).new_zeros(batch, self.heads, self.state, size)
        return Mamba2State(weight.new_zeros(batch, len(weight) - 1, weight.shape[1]), memory)

    def step(
        self, x: Float[Tensor, "B D"], carry: Mamba2State
    ) -> tuple[Float[Tensor, "B D"], Mamba2State]:
        """One step of the recurrence."""
        mixed, taps = self.convolution.step(self.input(x), carry.taps)
        inner, write, read = self.split(mixed)
        delta, rate = self.discretise(x)
        kept = carry.memory * (delta * rate).exp()[..., None, None]
        written = write[:, None, :, None] * (inner * delta[..., None])[:, :, None]
        memory = kept + written
        y = (read[:, None, None] @ memory).squeeze(2)
        y = y + at_least_float32(self.skip)[:, None] * inner
        return self.finish(x, y), Mamba2State(taps, memory)

    def scan(
        self, x: Float[Tensor, "B T D"], boundaries: Boundaries, carry: Mamba2State
    ) -> tuple[Float[Tensor, "B T D"], Mamba2State]:
        """All steps, by chunks."""
        mixed, taps = self.convolution.scan(self.input(x), carry.taps, boundaries)
        inner, write, read = self.split(mixed)
        delta, rate = self.discretise(x)
        skip = at_least_float32(self.skip)
        with torch.autocast(x.device.type, enabled=False):
            y, memory = scan_chunks(inner, delta, rate, write, read, skip, carry.memory, boundaries)
        return self.finish(x, y), Mamba2State(taps, memory)

    def split(self, mixed: Float[Tensor, "*rest D"]) -> tuple[Tensor, Tensor, Tensor]:
        """The input of each head, and the vectors that write to and read from the state."""
        mixed = at_least_float32(functional.silu(mixed))
        inner, write, read = mixed.split([self.inner, self.state, self.state], -1)
        return inner.unflatten(-1, (self.heads, -1)), write, read

    def discretise(
        self, x: Float[Tensor, "*rest D"]
    ) -> tuple[Float[Tensor, "*rest heads"], Float[Tensor, " heads"]]:
        """The step size of each head, and its (negative) rate of decay."""
        bias = at_least_float32(self.delta_bias)
        delta = functional.softplus(at_least_float32(self.delta(x)) + bias)
        return delta, -at_least_float32(self.log_rate).exp()

    def finish(
        self, x: Float[Tensor, "*rest D"], y: Float[Tensor, "*rest heads size"]
    ) -> Float[Tensor, "*rest D"]:
        """Gate, norm (in this order) and output."""
        gated = functional.silu(self.gate(x)) * y.flatten(-2).to(x.dtype)
        result: Tensor = self.output(self.norm(gated))
        return result


def initial_delta_bias(heads: int) -> Float[Tensor, " heads"]:
    """Biases whose softplus is spread evenly over the logarithm of the range of step sizes."""
    low, high = (math.log(edge) for edge in DELTA_RANGE)
    delta = torch.empty(heads).uniform_(low, high).exp().clamp_min(DELTA_FLOOR)
    return delta + torch.log(-torch.expm1(-delta))
