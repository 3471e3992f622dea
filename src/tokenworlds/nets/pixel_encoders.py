"""Policy networks on pixels: the encoders of IRIS and Δ-IRIS, and their CNN-LSTM."""

from dataclasses import dataclass, field

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.precision import full_precision, widen
from tokenworlds.core.protocols import VectorEncoder
from tokenworlds.core.trees import where_rows
from tokenworlds.core.types import FrameShape
from tokenworlds.nets.fast.convolution import convolve
from tokenworlds.nets.residual import FrameEncoder, halved


class PoolingEncoder(nn.Module, Component):
    """Convolutions, each followed by max pooling (IRIS)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["PoolingEncoder"]):
        filters: tuple[int, ...] = (32, 32, 64, 64)

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__()
        height, width = halved(frame_shape, len(config.filters))
        self.width = config.filters[-1] * height * width
        self.layers = nn.Sequential()
        before = frame_shape.channels
        for after in config.filters:
            layer = nn.Conv2d(before, after, 3, padding=1)
            self.layers.extend([layer, nn.MaxPool2d(2), nn.ReLU()])
            before = after

    def forward(self, frames: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        # Torch pools contiguous maps one number at a time.
        maps = convolve(self.layers, 2 * frames - 1, torch.channels_last)
        return rearrange(maps, "b c h w -> b (c h w)")


class ResidualEncoder(nn.Module, Component):
    """The residual convolutions of Δ-IRIS's tokenizer, narrower."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["ResidualEncoder"]):
        layers: FrameEncoder.Config = field(
            default_factory=lambda: FrameEncoder.Config(width=32, latent=16)
        )

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__()
        height, width = halved(frame_shape, sum(config.layers.halvings))
        self.width = config.layers.latent * height * width
        self.layers = config.layers.build(channels=frame_shape.channels)

    def forward(self, frames: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        maps: Tensor = self.layers(frames)
        return rearrange(maps, "b c h w -> b (h w c)")


@dataclass(frozen=True, slots=True)
class LSTMState:
    hidden: Float[Tensor, "B D"]
    cell: Float[Tensor, "B D"]


@dataclass(frozen=True, slots=True)
class FrameHistory:
    """Consecutive frames. The state is cleared before a `first`; masked frames are skipped."""

    frame: Float[Tensor, "B T C H W"]
    first: Bool[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]

    def append(
        self, frame: Float[Tensor, "B t C H W"], first: Bool[Tensor, " B"]
    ) -> "FrameHistory":
        """With more frames, of a new episode in the rows where `first` is set."""
        firsts = torch.zeros(frame.shape[:2], dtype=torch.bool, device=frame.device)
        firsts[:, 0] = first
        return FrameHistory(
            torch.cat([self.frame, frame], dim=1),
            torch.cat([self.first, firsts], dim=1),
            torch.cat([self.mask, torch.ones_like(firsts)], dim=1),
        )


class FullLinear(nn.Linear):
    """A linear layer that ignores autocast."""

    def forward(self, input: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest E"]:
        with full_precision(input):
            return super().forward(input)


class RecurrentNetwork(nn.Module):
    """Actor and critic on one CNN-LSTM, in full precision throughout (Δ-IRIS)."""

    encoder: VectorEncoder

    def __init__(self, encoder: VectorEncoder, width: int, actions: int, values: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.recurrence = nn.LSTMCell(encoder.width, width)
        self.actor = FullLinear(width, actions)
        self.critic = FullLinear(width, values)

    def initial(self, batch: int) -> LSTMState:
        blank = self.actor.weight.new_zeros(batch, self.recurrence.hidden_size)
        return LSTMState(blank, blank.clone())

    def forward(self, frame: Float[Tensor, "B C H W"], state: LSTMState) -> LSTMState:
        return self._step(self._encode(frame), state)

    def _encode(self, frames: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        with full_precision(frames):
            return self.encoder(widen(frames))

    def _step(self, feature: Float[Tensor, "B D"], state: LSTMState) -> LSTMState:
        with full_precision(feature):
            return LSTMState(*self.recurrence(feature, (state.hidden, state.cell)))

    def scan(self, history: FrameHistory) -> tuple[Float[Tensor, "T B D"], LSTMState]:
        """The hidden state after each frame of a history, and the last state."""
        batch, steps = history.first.shape
        features = self._encode(rearrange(history.frame, "b t c h w -> (t b) c h w"))
        state = blank = self.initial(batch)
        hidden = []
        for step, feature in enumerate(features.chunk(steps)):
            state = where_rows(history.first[:, step], blank, state)
            after = self._step(feature, state)
            state = where_rows(history.mask[:, step], after, state)
            hidden.append(state.hidden)
        return torch.stack(hidden), state

    def burn_in(self, past: FrameHistory, first: Bool[Tensor, " B"]) -> LSTMState:
        """The state after the past; blank where the next frame is the `first` of an episode."""
        blank = self.initial(len(first))
        state = self.scan(past)[1] if past.first.shape[1] else blank
        return where_rows(first, blank, state)
