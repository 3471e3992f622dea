"""Codes of the change from one frame to the next (Δ-IRIS: Micheli et al., 2024, section 2.1)."""

from dataclasses import dataclass, field
from functools import partial

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import full_precision
from tokenworlds.core.types import ActionSpace, Codes, Context, FrameShape, Losses
from tokenworlds.nets.codebooks import (
    UnitCodebook,
    certain,
    code_histogram,
    straight_through,
    usage_metrics,
)
from tokenworlds.nets.readout import INITIAL_STD, small_normal
from tokenworlds.nets.residual import FrameDecoder, FrameEncoder, halved

SCALES = {"l1": 0.1, "l2": 1.0, "max_pixel": 0.01, "commitment": 0.02}


class ActionPlanes(nn.Module):
    """Channels of a map as a linear function of the action, without bias."""

    def __init__(self, actions: int, channels: int, size: tuple[int, int]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(actions, channels, *size) * INITIAL_STD)

    def forward(self, action: Float[Tensor, "B A"]) -> Float[Tensor, "B C H W"]:
        channels, height, _ = self.weight.shape[1:]
        rows = rearrange(self.weight, "a c h w -> a (c h w)")
        return rearrange(action @ rows, "b (c h w) -> b c h w", c=channels, h=height)


class Delta(nn.Module, Component):
    """One code per patch of a map encoded from the past frame, the action and the frame."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Delta"]):
        """The defaults are the paper's for Crafter. The decoder mirrors `encoder`; `past` encodes
        the past frame for it. There are `grid` x `grid` codes."""

        encoder: FrameEncoder.Config = field(default_factory=FrameEncoder.Config)
        past: FrameEncoder.Config = field(default_factory=lambda: FrameEncoder.Config(latent=8))
        action_channels: int = 4
        grid: int = 2
        codebook: UnitCodebook.Config = field(default_factory=UnitCodebook.Config)

    def __init__(
        self, config: Config, *, frame_shape: FrameShape, action_space: ActionSpace
    ) -> None:
        super().__init__()
        self.config = config
        self.size, self.patch = map_and_patch(config, frame_shape)
        self.tokens, self.vocabulary = config.grid**2, config.codebook.codes
        self.grid = (config.grid, config.grid)
        encoder, channels, actions = config.encoder, frame_shape.channels, action_space.size
        whole, codes = (frame_shape.height, frame_shape.width), config.codebook.width
        patch = encoder.latent * self.patch[0] * self.patch[1]
        inputs = config.past.latent + config.action_channels + encoder.latent
        self.encoder_action = ActionPlanes(actions, 1, whole)
        self.encoder = encoder.build(channels=2 * channels + 1)
        self.project = small_normal(nn.Linear(patch, codes))
        self.codebook = config.codebook.build()
        self.expand = small_normal(nn.Linear(codes, patch))
        self.past = config.past.build(channels=channels)
        self.decoder_action = ActionPlanes(actions, config.action_channels, self.size)
        self.decoder = FrameDecoder(encoder, inputs=inputs, channels=channels)

    def encode(self, frames: Float[Tensor, "*rest C H W"], context: Context | None = None) -> Codes:
        """The most similar code of each patch; the posterior is softmax(similarity)."""
        flat, lead = pack([frames], "* c h w")
        past, action = flatten(context)
        maps = self.encoder(torch.cat([past, self.encoder_action(action), flat], dim=1))
        (patches,) = unpack(self._patches(maps), lead, "* k d")
        # In low precision, near ties would resolve differently in training and in imagination.
        with full_precision(frames):
            return self._quantise(patches.to(self.project.weight.dtype))

    def _patches(self, maps: Float[Tensor, "B D h w"]) -> Float[Tensor, "B K patch"]:
        height, width = self.patch
        pattern = "b d (h ph) (w pw) -> b (h w) (ph pw d)"
        return rearrange(maps, pattern, ph=height, pw=width)

    def _quantise(self, patches: Float[Tensor, "*rest K patch"]) -> Codes:
        encoded = functional.normalize(self.project(patches), dim=-1)
        similarity = self.codebook.similarity(encoded)
        index = similarity.argmax(dim=-1)
        logits = functional.log_softmax(similarity, dim=-1)
        return straight_through(index, logits, encoded, self.codebook.look_up(index))

    def look_up(self, index: Int[Tensor, "*rest K"]) -> Codes:
        return certain(index, self.codebook.look_up(index), self.vocabulary)

    def decode(self, codes: Codes, context: Context | None = None) -> Float[Tensor, "*rest C H W"]:
        return self._decode(codes.vector, context).clamp(0, 1)

    def _decode(
        self, vector: Float[Tensor, "*rest K D"], context: Context | None
    ) -> Float[Tensor, "*rest C H W"]:
        flat, lead = pack([vector], "* k d")
        past, action = flatten(context)
        parts = [self.past(past), self.decoder_action(action), self._change(flat)]
        frames: list[Tensor] = unpack(self.decoder(torch.cat(parts, dim=1)), lead, "* c h w")
        return frames[0].to(vector.dtype)

    def _change(self, vector: Float[Tensor, "B K D"]) -> Float[Tensor, "B C h w"]:
        """The code vectors as a map for the decoder."""
        with full_precision(vector):
            patches: Tensor = self.expand(vector)
        height, width = self.patch
        pattern = "b (h w) (ph pw d) -> b d (h ph) (w pw)"
        return rearrange(patches, pattern, h=self.config.grid, ph=height, pw=width)

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        codes: Codes,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses:
        """Errors of pixels and vectors; `mask` is set where frame and past frame are both valid."""
        error = frames - self._decode(codes.vector, context)
        distance = codes.encoded - self.codebook.look_up(codes.index)
        pixels = (-3, -2, -1)
        terms = {
            "l1": error.abs().mean(dim=pixels),
            "l2": error.square().mean(dim=pixels),
            "max_pixel": error.square().amax(dim=pixels),
            "commitment": distance.square().mean(dim=(-2, -1)),
        }
        metrics = usage_metrics(code_histogram(codes.index, mask, self.vocabulary))
        after = (partial(self.codebook.learn, codes, mask),)
        return Losses(terms, dict.fromkeys(terms, mask), metrics, after, SCALES)


def flatten(
    context: Context | None,
) -> tuple[Float[Tensor, "B C H W"], Float[Tensor, "B A"]]:
    """The past frames and actions with one leading axis."""
    if context is None:
        raise UserError("the delta tokenizer needs a past frame; use it in the world delta_iris")
    past, _ = pack([context.frame], "* c h w")
    action, _ = pack([context.action], "* a")
    return past, action


def map_and_patch(
    config: Delta.Config, frame_shape: FrameShape
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Height and width of the encoder's map, and of the patch of one code."""
    halvings = sum(config.encoder.halvings)
    if sum(config.past.halvings) != halvings:
        raise UserError(f"past.halvings must halve {halvings} times, as encoder.halvings does")
    height, width = halved(frame_shape, halvings)
    if config.grid < 1 or height % config.grid or width % config.grid:
        raise UserError(
            f"grid={config.grid} does not split the map of {height}x{width} into equal patches"
        )
    return (height, width), (height // config.grid, width // config.grid)
