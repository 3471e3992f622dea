"""The VQ tokenizer of IRIS: a small map with attention (Micheli et al., 2023, section 2.1).

Its perceptual loss, LPIPS (Zhang et al., 2018), needs a file with the weights of VGG16's
convolutions, named as in torchvision (`features.0.weight`, `features.0.bias`, ...,
`features.28.bias`), and of the five heads, named as in LPIPS's `vgg.pth` (`lin0.model.1.weight`,
..., `lin4.model.1.weight`). Other tensors in the file are ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

import torch
from einops import pack, rearrange, unpack
from jaxtyping import Bool, Float, Int
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import widen
from tokenworlds.core.sharing import any_row, gathered
from tokenworlds.core.types import Codes, Context, FrameShape, Losses
from tokenworlds.nets.codebooks import (
    certain,
    code_histogram,
    lacks_code,
    place_apart,
    squared_distance,
    straight_through,
    usage_metrics,
)
from tokenworlds.nets.residual import AttentiveDecoder, AttentiveEncoder, halved

USAGE_DECAY = 0.9
NO_PERCEPTUAL_LOSS = (
    "IRIS's perceptual loss is left out because no LPIPS weights are given "
    "(world.tokenizer.perceptual_weights)"
)
VGG_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and number of convolutions."""
VGG_SHIFT = (-0.030, -0.088, -0.188)
VGG_SCALE = (0.458, 0.448, 0.450)


class AttentiveVQ(nn.Module, Component):
    """One code per cell of the encoder's map; the codebook is trained by gradients."""

    usage: Tensor

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["AttentiveVQ"]):
        """The map is halved between levels; levels whose height is in `attention` attend. Codes
        used less than `revive_below` of an even share are moved onto vectors that no code stands
        for, as long as there are any. A file of
        `perceptual_weights` adds the perceptual loss. `commitment_scale` and `reconstruction_scale`
        are the default weights of these losses."""

        width: int = 64
        levels: int = 5
        blocks: int = 2
        attention: tuple[int, ...] = (16, 8)
        codes: int = 512
        code_width: int = 512
        error: Literal["absolute", "squared"] = "absolute"
        revive_below: float = 0.0
        perceptual_weights: str = ""
        commitment_scale: float = 1.0
        reconstruction_scale: float = 1.0

        def __post_init__(self) -> None:
            if self.levels < 1:
                raise ValueError(f"levels={self.levels} must be 1 or more")

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__()
        self.config = config
        self.grid = halved(frame_shape, config.levels - 1)
        self.tokens, self.vocabulary = self.grid[0] * self.grid[1], config.codes
        self.width = config.code_width
        if config.perceptual_weights and frame_shape.channels != 3:
            raise UserError(f"perceptual_weights need 3 channels, not {frame_shape.channels}")
        self.remark = "" if config.perceptual_weights else NO_PERCEPTUAL_LOSS
        channels, codes = frame_shape.channels, config.code_width
        heights = [frame_shape.height >> number for number in range(config.levels)]
        attends = [height in config.attention for height in heights]
        sizes = {"width": config.width, "blocks": config.blocks}
        self.encoder = AttentiveEncoder(channels, codes, attends=attends, **sizes)
        self.project = nn.Conv2d(codes, codes, 1)
        self.codebook = nn.Embedding(config.codes, codes)
        nn.init.uniform_(self.codebook.weight, -1 / config.codes, 1 / config.codes)
        self.register_buffer("usage", torch.zeros(config.codes))
        self.expand = nn.Conv2d(codes, codes, 1)
        self.decoder = AttentiveDecoder(channels, codes, attends=attends, **sizes)

    def encode(self, frames: Float[Tensor, "*rest C H W"], context: Context | None = None) -> Codes:
        """The nearest code of each cell; the posterior is softmax(-distance^2)."""
        flat, lead = pack([2 * frames - 1], "* c h w")
        maps = self.project(self.encoder(flat))
        (vectors,) = unpack(rearrange(widen(maps), "b d h w -> b (h w) d"), lead, "* k d")
        # Only the codebook loss moves the codes.
        distance = squared_distance(vectors, self.codebook.weight.detach())
        index = distance.argmin(dim=-1)
        logits = functional.log_softmax(-distance, dim=-1)
        return straight_through(index, logits, vectors, self.codebook(index))

    def encode_vectors(self, frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest K D"]:
        return self.encode(frames).vector

    def token_vectors(self, sampled: Int[Tensor, "*rest K"]) -> Float[Tensor, "*rest K D"]:
        vectors: Tensor = self.codebook(sampled)
        return vectors

    def decode_vectors(self, vector: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest C H W"]:
        return ((self._decode(vector) + 1) / 2).clamp(0, 1)

    def look_up(self, index: Int[Tensor, "*rest K"]) -> Codes:
        return certain(index, self.codebook(index), self.vocabulary)

    def decode(self, codes: Codes, context: Context | None = None) -> Float[Tensor, "*rest C H W"]:
        return self.decode_vectors(codes.vector)

    def _decode(self, vector: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest C H W"]:
        """Frames with targets in [-1, 1], without bounds."""
        flat, lead = pack([vector], "* k d")
        maps = rearrange(flat, "b (h w) d -> b d h w", h=self.grid[0])
        frames: list[Tensor] = unpack(widen(self.decoder(self.expand(maps))), lead, "* c h w")
        return frames[0]

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        codes: Codes,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses:
        """Means over cells and widths, and over pixels in [-1, 1]."""
        target, decoded = 2 * frames - 1, self._decode(codes.vector)
        error = target - decoded
        error = error.abs() if self.config.error == "absolute" else error.square()
        quantised = self.codebook(codes.index)
        terms = {
            "codebook": (codes.encoded.detach() - quantised).square().mean(dim=(-2, -1)),
            "commitment": (codes.encoded - quantised.detach()).square().mean(dim=(-2, -1)),
            "reconstruction": error.mean(dim=(-3, -2, -1)),
        }
        if self.config.perceptual_weights:
            terms["perceptual"] = self._perceptual_loss(target, decoded)
        histogram = code_histogram(codes.index, mask, self.vocabulary)
        revive = partial(self._revive, codes.encoded.detach(), mask, histogram)
        after = (revive,) if self.config.revive_below else ()
        scales = {
            "commitment": self.config.commitment_scale,
            "reconstruction": self.config.reconstruction_scale,
        }
        masks, metrics = dict.fromkeys(terms, mask), usage_metrics(histogram)
        return Losses(terms, masks, metrics, after, scales)

    def _revive(
        self,
        encoded: Float[Tensor, "B T K D"],
        mask: Bool[Tensor, "B T"],
        histogram: Float[Tensor, " V"],
    ) -> None:
        """Update the running usage, in even shares, and move unused codes onto the data.

        A moved code starts with an even share.
        """
        if not any_row(mask):
            return
        self.usage.lerp_(histogram / histogram.mean(), 1 - USAGE_DECAY)
        unused = self.usage < self.config.revive_below
        flat, codes = gathered(rearrange(encoded[mask], "n k d -> (n k) d")), self.codebook.weight
        moved = place_apart(codes, unused, flat[lacks_code(flat, codes, ~unused)])
        self.usage[moved] = 1.0

    def _perceptual_loss(
        self, left: Float[Tensor, "B T C H W"], right: Float[Tensor, "B T C H W"]
    ) -> Float[Tensor, "B T"]:
        one, lead = pack([left], "* c h w")
        other, _ = pack([right], "* c h w")
        distances: list[Tensor] = unpack(self._perceptual.to(left.device)(one, other), lead, "*")
        return distances[0]

    @cached_property
    def _perceptual(self) -> "Perceptual":
        """Loaded at the first loss and not registered as a submodule: acting needs no file, and the
        weights are neither trained, counted nor saved."""
        return load_perceptual(self.config.perceptual_weights)


class Perceptual(nn.Module):
    """LPIPS: weighted distances between VGG16's features after each of its five stages."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential()
        self.ends: list[int] = []
        before = 3
        for number, (width, layers) in enumerate(VGG_STAGES):
            if number > 0:
                self.features.append(nn.MaxPool2d(2))
            for _ in range(layers):
                self.features.extend([nn.Conv2d(before, width, 3, padding=1), nn.ReLU()])
                before = width
            self.ends.append(len(self.features))
        heads = [nn.Parameter(torch.ones(1, width, 1, 1)) for width, _ in VGG_STAGES]
        self.heads = nn.ParameterList(heads)

    def forward(
        self, left: Float[Tensor, "B C H W"], right: Float[Tensor, "B C H W"]
    ) -> Float[Tensor, " B"]:
        """The distance between images in [-1, 1]."""
        total = left.new_zeros(len(left))
        for head, one, other in zip(
            self.heads, self._stages(left), self._stages(right), strict=True
        ):
            difference = (unit_channels(one) - unit_channels(other)).square()
            total = total + (difference * head).sum(dim=1).mean(dim=(-2, -1))
        return total

    def _stages(self, images: Float[Tensor, "B C H W"]) -> list[Tensor]:
        shift, scale = (
            images.new_tensor(values).view(3, 1, 1) for values in (VGG_SHIFT, VGG_SCALE)
        )
        maps, stages = (images - shift) / scale, []
        for number, layer in enumerate(self.features, start=1):
            maps = layer(maps)
            if number in self.ends:
                stages.append(widen(maps))
        return stages


def unit_channels(maps: Float[Tensor, "B D H W"]) -> Float[Tensor, "B D H W"]:
    """Scale the channels of each cell to a vector of length 1."""
    # The gradient of the square root is infinite at zero, where all channels of a cell may be.
    length = functional.threshold(maps.square().sum(dim=1, keepdim=True), 1e-20, 1e-20).sqrt()
    return maps / (length + 1e-10)


def name_in_file(name: str) -> str:
    """The name of a weight in the files of VGG16 and LPIPS."""
    head, _, number = name.partition("heads.")
    return f"lin{number}.model.1.weight" if head == "" else name


def load_perceptual(path: str) -> Perceptual:
    """The frozen network, with weights from a safetensors file or a torch state dict.

    It is built without initialising weights, so that no random number is used.
    """
    with torch.device("meta"):
        network = Perceptual()
    found, weights = read_tensors(path), {}
    for name, wanted in network.state_dict().items():
        given = found.get(name_in_file(name))
        if given is None or given.shape != wanted.shape:
            missing = f"{name_in_file(name)!r} of shape {tuple(wanted.shape)}"
            raise UserError(f"{path} has no {missing}: it needs the weights of VGG16 and LPIPS")
        weights[name] = given.float()
    network.load_state_dict(weights, assign=True)
    return network.requires_grad_(False).eval()


def read_tensors(path: str) -> Mapping[str, Tensor]:
    """The named tensors of a file, without unpickling anything else."""
    try:
        if Path(path).suffix == ".safetensors":
            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(f"perceptual_weights={path!r} cannot be read: {error}") from error
    if not isinstance(found, Mapping):
        raise UserError(f"{path} holds a {type(found).__name__} instead of named tensors")
    return found
