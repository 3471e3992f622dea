"""Frames as single tokens of a sequence, the I-tokens of Δ-IRIS (Micheli et al., 2024)."""

from typing import Any, cast

from einops import pack, rearrange, unpack
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import FrameShape
from tokenworlds.nets.residual import FrameEncoder, halved
from tokenworlds.worlds.tokens import Dynamics


class ImageToken(nn.Module):
    """A small map, laid out as one vector and normed; it learns by what is foreseen from it."""

    def __init__(self, config: FrameEncoder.Config, *, frame_shape: FrameShape, width: int) -> None:
        super().__init__()
        height, across = halved(frame_shape, sum(config.halvings))
        if config.latent * height * across != width:
            raise UserError(
                f"world.image.latent={config.latent} on a map of {height}x{across} does not make "
                f"an I-token of the sequence model's width {width}"
            )
        self.encoder = config.build(channels=frame_shape.channels)
        self.norm = nn.LayerNorm(width)

    def forward(self, frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest D"]:
        """One vector for each frame."""
        flat, lead = pack([frames], "* c h w")
        laid_out = rearrange(self.encoder(flat), "b d h w -> b (h w d)")
        tokens: list[Tensor] = unpack(self.norm(laid_out), lead, "* d")
        return tokens[0]


class ImageDynamics(Dynamics):
    """Dynamics that are shown frames: each of them, or only those that open a history."""

    def __init__(
        self,
        *,
        image: FrameEncoder.Config,
        frame_shape: FrameShape,
        every_frame: bool,
        **facts: Any,
    ) -> None:
        super().__init__(**facts)
        self.every_frame = every_frame
        self.image = ImageToken(image, frame_shape=frame_shape, width=self.sequence.width)

    def show(
        self, frames: Float[Tensor, "*rest C H W"], opens: Bool[Tensor, "*rest"]
    ) -> Float[Tensor, "*rest D"]:
        """I-tokens, blank where a frame is not shown."""
        token = cast(Tensor, self.image(frames))
        return token if self.every_frame else token * opens.unsqueeze(-1)
