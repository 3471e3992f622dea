"""Mamba-2's recurrence in chunks (Dao and Gu, 2024), and its causal convolution."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from einops import einsum, rearrange
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.precision import widest


@dataclass(frozen=True, slots=True)
class StateSpace:
    """memory = exp(delta rate) memory + delta write x;  y = read memory + skip x, at every step."""

    delta: Float[Tensor, "*batch heads"]
    rate: Float[Tensor, " heads"]
    write: Float[Tensor, "*batch state"]
    read: Float[Tensor, "*batch state"]
    skip: Float[Tensor, " heads"]


@dataclass(frozen=True, slots=True)
class ResetMasks:
    """Where resets cut the history inside a scan, as factors of zero and one for every layer.

    `within` is 1 where step t of a chunk (row) remembers its step s (column), and `entering` where
    it remembers the state before the chunk. `taps` is 1 for each tap of the convolution that is
    remembered at each step, and `last_taps` for the taps that go into the carry.
    """

    within: Float[Tensor, "B chunks 1 length length"]
    entering: Float[Tensor, "B chunks 1 length"]
    taps: Float[Tensor, "B T taps"]
    last_taps: Float[Tensor, "B taps 1"]


def mask_resets(
    reset: Bool[Tensor, "B T"], taps: int, chunk: int, dtype: torch.dtype
) -> ResetMasks:
    episode = functional.pad(reset.long().cumsum(1), (taps, 0))
    windows = episode.unfold(1, taps + 1, 1)
    chunked = split_chunks(reset.long(), chunk).cumsum(2)
    within = (chunked[..., :, None] == chunked[..., None, :]).tril()
    last = episode[:, reset.shape[1] :]
    return ResetMasks(
        within=within.unsqueeze(2).to(widest(dtype)),
        entering=(chunked == 0).unsqueeze(2).to(widest(dtype)),
        taps=(windows[..., :-1] == windows[..., -1:]).to(dtype),
        last_taps=(last == episode[:, -1:]).unsqueeze(2).to(dtype),
    )


def split_chunks(
    x: Shaped[Tensor, "B T *rest"], chunk: int
) -> Shaped[Tensor, "B chunks length *rest"]:
    """Split time into equal chunks of at most this length, padding the end with zeros."""
    steps = x.shape[1]
    count = math.ceil(steps / chunk)
    length = math.ceil(steps / count)
    if count * length != steps:
        x = functional.pad(x, (0, 0) * (x.dim() - 2) + (0, count * length - steps))
    return rearrange(x, "b (c t) ... -> b c t ...", c=count)


def scan_chunks(
    x: Float[Tensor, "B T heads size"],
    space: StateSpace,
    memory: Float[Tensor, "B heads state size"],
    masks: ResetMasks,
) -> tuple[Float[Tensor, "B T heads size"], Float[Tensor, "B heads state size"]]:
    """State space duality: matrix products inside chunks, the recurrence between them.

    Step size, skip connection and masks go into the small matrices, so that the large `x` is only
    ever the right side of a product. Padded steps have step size zero and no effect.
    """
    steps, length = x.shape[1], masks.within.shape[-1]
    values = rearrange(split_chunks(x, length), "b c t h p -> b c h t p").contiguous()
    delta = rearrange(split_chunks(space.delta, length), "b c t h -> b c h t")
    write, read = split_chunks(space.write, length), split_chunks(space.read, length)
    log_decay = delta * space.rate[:, None]
    left = remaining(log_decay) * masks.within * delta[..., None, :]
    skip = space.skip[:, None, None] * torch.eye(length, dtype=x.dtype, device=x.device)
    mixing = (read @ write.mT).unsqueeze(2) * left + skip
    written = (left[..., -1, :, None] * write.unsqueeze(2)).mT @ values
    kept = log_decay.cumsum(-1).exp() * masks.entering
    entering, memory = pass_on(written, kept[..., -1, None, None], memory)
    reading = kept[..., None] * read.unsqueeze(2)
    # One sum of two products, without a third tensor as large as the values.
    y = torch.bmm(reading.flatten(0, 2), entering.flatten(0, 2))
    y.baddbmm_(mixing.flatten(0, 2), values.flatten(0, 2))
    y = rearrange(y, "(b c h) t p -> b (c t) h p", b=values.shape[0], c=values.shape[1])
    return y[:, :steps], memory


def plain_scan(
    x: Float[Tensor, "B T heads size"],
    space: StateSpace,
    memory: Float[Tensor, "B heads state size"],
    reset: Bool[Tensor, "B T"],
) -> tuple[Float[Tensor, "B T heads size"], Float[Tensor, "B heads state size"]]:
    """The recurrence, step by step."""
    outputs = []
    for t in range(x.shape[1]):
        memory = torch.where(reset[:, t, None, None, None], 0.0, memory)
        delta = space.delta[:, t]
        decay = torch.exp(delta * space.rate)
        written = einsum(delta, space.write[:, t], x[:, t], "b h, b n, b h p -> b h n p")
        memory = decay[..., None, None] * memory + written
        y = einsum(space.read[:, t], memory, "b n, b h n p -> b h p")
        outputs.append(y + space.skip[:, None] * x[:, t])
    return torch.stack(outputs, 1), memory


def remaining(log_decay: Float[Tensor, "*rest length"]) -> Float[Tensor, "*rest length length"]:
    """The share of step s (column) that is left at step t (row): exp of the log decays in between.

    Each sum has only its own terms, because differences of one running sum lose digits where decay
    is strong. The entries above the diagonal are 1, to be masked.
    """
    length = log_decay.shape[-1]
    later = torch.ones(length, length, dtype=log_decay.dtype, device=log_decay.device).tril(-1)
    return (log_decay[..., :, None] * later).cumsum(-2).exp()


def pass_on(
    written: Float[Tensor, "B chunks heads state size"],
    kept: Float[Tensor, "B chunks heads 1 1"],
    memory: Float[Tensor, "B heads state size"],
) -> tuple[Float[Tensor, "B chunks heads state size"], Float[Tensor, "B heads state size"]]:
    """The state that enters each chunk, and the state after the last."""
    entering = []
    for chunk_written, chunk_kept in zip(written.unbind(1), kept.unbind(1), strict=True):
        entering.append(memory)
        memory = torch.addcmul(chunk_written, chunk_kept, memory)
    return torch.stack(entering, 1), memory


def step_once(
    x: Float[Tensor, "B heads size"],
    space: StateSpace,
    memory: Float[Tensor, "B heads state size"],
) -> tuple[Float[Tensor, "B heads size"], Float[Tensor, "B heads state size"]]:
    """One step of the recurrence; returns a new state."""
    memory = memory * (space.delta * space.rate).exp()[..., None, None]
    scaled = x * space.delta[..., None]
    memory.addcmul_(space.write[:, None, :, None], scaled[:, :, None])
    y = (space.read[:, None, None] @ memory).squeeze(2)
    return torch.addcmul(y, x, space.skip[:, None]), memory


class CausalConvolution(nn.Module):
    """For each channel, the weighted sum of the present step and the last few ("taps")."""

    def __init__(self, channels: int, length: int) -> None:
        super().__init__()
        bound = length**-0.5
        self.weight = nn.Parameter(torch.empty(length, channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound))

    def initial(self, batch: int) -> Float[Tensor, "B taps D"]:
        length, channels = self.weight.shape
        return self.weight.new_zeros(batch, length - 1, channels)

    def scan(
        self,
        x: Float[Tensor, "B T D"],
        taps: Float[Tensor, "B taps D"],
        kept: Float[Tensor, "B T taps"],
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B past D"]]:
        """All steps, each tap times its factor. Also returns taps and inputs as one tensor."""
        extended = torch.cat([taps, x], 1)
        y: Tensor = MaskedConvolution.apply(extended, self.weight, self.bias, kept)  # type: ignore[no-untyped-call]
        return y, extended

    def step(
        self, x: Float[Tensor, "B D"], taps: Float[Tensor, "B taps D"]
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B taps D"]]:
        y = torch.addcmul(self.bias, x, self.weight[-1])
        for tap, weight in zip(taps.unbind(1), self.weight, strict=False):
            y.addcmul_(tap, weight)
        return y, torch.cat([taps[:, 1:], x[:, None]], 1) if taps.shape[1] else taps


class MaskedConvolution(torch.autograd.Function):
    """Shifted products, with a backward pass that needs half of autograd's temporaries."""

    @staticmethod
    def forward(ctx: Any, extended: Tensor, weight: Tensor, bias: Tensor, kept: Tensor) -> Tensor:
        ctx.save_for_backward(extended, weight, kept)
        steps, taps = kept.shape[1:]
        y = torch.addcmul(bias, extended[:, taps:], weight[-1])
        for tap in range(taps):
            y.addcmul_(extended[:, tap : tap + steps] * kept[..., tap, None], weight[tap])
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        extended, weight, kept = ctx.saved_tensors
        steps, taps = kept.shape[1:]
        to_extended, to_weight = torch.zeros_like(extended), torch.empty_like(weight)
        for tap in range(taps + 1):
            masked = grad * (kept[..., tap, None] if tap < taps else 1.0)
            to_extended[:, tap : tap + steps].addcmul_(masked, weight[tap])
            to_weight[tap] = masked.mul_(extended[:, tap : tap + steps]).sum((0, 1))
        return to_extended, to_weight, grad.sum((0, 1)), None


def plain_masked_convolution(
    extended: Float[Tensor, "B past D"],
    weight: Float[Tensor, "length D"],
    bias: Float[Tensor, " D"],
    kept: Float[Tensor, "B T taps"],
) -> Float[Tensor, "B T D"]:
    windows = extended.unfold(1, len(weight), 1)
    factors = functional.pad(kept, (0, 1), value=1.0)
    return einsum(windows, weight, factors, "b t d k, k d, b t k -> b t d") + bias
