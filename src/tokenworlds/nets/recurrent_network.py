"""A network that reads frames one after the other: an encoder, an LSTM and two linear heads."""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenworlds.core.precision import full_precision, widen
from tokenworlds.core.trees import where_rows
from tokenworlds.nets.pixel_encoders import PixelEncoder


@dataclass(frozen=True, slots=True)
class Memory:
    """The LSTM's state; the heads read what is `hidden`."""

    hidden: Float[Tensor, "B D"]
    cell: Float[Tensor, "B D"]


@dataclass(frozen=True, slots=True)
class Footage:
    """Frames in a row. Before a `first` all is forgotten; where the mask is False none is seen."""

    frame: Float[Tensor, "B T C H W"]
    first: Bool[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]

    def then(self, frame: Float[Tensor, "B t C H W"], opens: Bool[Tensor, " B"]) -> "Footage":
        """The same with frames of one episode at its end, new in the rows where one `opens`."""
        first = torch.zeros(frame.shape[:2], dtype=torch.bool, device=frame.device)
        first[:, 0] = opens
        return Footage(
            torch.cat([self.frame, frame], dim=1),
            torch.cat([self.first, first], dim=1),
            torch.cat([self.mask, torch.ones_like(first)], dim=1),
        )


class FullLinear(nn.Linear):
    """A head in full precision."""

    def forward(self, input: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest E"]:
        """Map the last axis."""
        with full_precision(input):
            return super().forward(input)


class RecurrentNetwork(nn.Module):
    """Actor and critic on one memory of frames, all of it in full precision (Δ-IRIS)."""

    encoder: PixelEncoder

    def __init__(self, encoder: PixelEncoder, width: int, actions: int, values: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.recurrence = nn.LSTMCell(encoder.width, width)
        self.actor = FullLinear(width, actions)
        self.critic = FullLinear(width, values)

    def initial(self, batch: int) -> Memory:
        """Nothing was seen."""
        blank = self.actor.weight.new_zeros(batch, self.recurrence.hidden_size)
        return Memory(blank, blank.clone())

    def forward(self, frame: Float[Tensor, "B C H W"], memory: Memory) -> Memory:
        """See a frame."""
        return self._remember(self._look(frame), memory)

    def _look(self, frames: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        with full_precision(frames):
            return self.encoder(widen(frames))

    def _remember(self, feature: Float[Tensor, "B D"], memory: Memory) -> Memory:
        with full_precision(feature):
            return Memory(*self.recurrence(feature, (memory.hidden, memory.cell)))

    def read(self, footage: Footage) -> tuple[Float[Tensor, "T B D"], Memory]:
        """See all of it from the beginning; returns what was hidden after each frame."""
        batch, steps = footage.first.shape
        features = self._look(rearrange(footage.frame, "b t c h w -> (t b) c h w"))
        memory = blank = self.initial(batch)
        hidden = []
        for step, feature in enumerate(features.chunk(steps)):
            memory = where_rows(footage.first[:, step], blank, memory)
            after = self._remember(feature, memory)
            memory = where_rows(footage.mask[:, step], after, memory)
            hidden.append(memory.hidden)
        return torch.stack(hidden), memory

    def burn_in(self, past: Footage, opens: Bool[Tensor, " B"]) -> Memory:
        """What is known before a frame; nothing where that frame opens an episode."""
        blank = self.initial(len(opens))
        memory = self.read(past)[1] if past.first.shape[1] else blank
        return where_rows(opens, blank, memory)
