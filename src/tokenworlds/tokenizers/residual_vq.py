"""Residual vector quantisation (Zeghidour et al., 2021; Lee et al., 2022): several codes per cell.

The first codebook quantises the encoder's vector, each further one what the codebooks before it
have left over. The decoder reads the sum.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from einops import rearrange, reduce
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.types import Codes, Context, FrameShape, Losses, masked_mean, one_hots
from tokenworlds.nets.codebooks import Codebook, certain, code_histogram, usage_metrics
from tokenworlds.nets.distributions import mix_uniform
from tokenworlds.nets.grid_maps import GridConfig, GridMaps, pixel_error
from tokenworlds.tokenizers.vq import SMALLEST_ERROR

SCALES = {"reconstruction": 1.0, "commitment": 0.25}


class ResidualVQ(GridMaps, Component):
    """`depth` codes per cell, one after the other in the order of tokens."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(GridConfig, ConfigOf["ResidualVQ"]):
        """Each depth has a codebook of its own. `temperature` is beta of the soft posteriors, each
        softmax(-beta distance^2 / error) with the error of its codebook, as in `VQ`."""

        depth: int = 2
        codebook: Codebook.Config = field(default_factory=Codebook.Config)
        temperature: float = 4.0
        unimix: float = 0.01

        def __post_init__(self) -> None:
            if self.depth < 1:
                raise ValueError(f"depth={self.depth} takes 1 or more")

    def __init__(self, config: Config, *, frame_shape: FrameShape) -> None:
        super().__init__(config, frame_shape=frame_shape, width=config.codebook.width)
        self.config, self.depth = config, config.depth
        height, width = self.map_size
        self.grid = (height, width * config.depth)
        self.tokens, self.vocabulary = self.cells * config.depth, config.codebook.codes
        self.codebooks = nn.ModuleList(config.codebook.build() for _ in range(config.depth))

    def encode(self, frames: Float[Tensor, "*rest C H W"], context: Context | None = None) -> Codes:
        """The nearest code of each residual. The sum of a cell's vectors has the gradient of the
        encoder's vector, a posterior that of its own residual."""
        residual = self.to_cells(frames)
        index, logits, encoded, vector = [], [], [], []
        for codebook in self._stack():
            distance = codebook.distance(residual)
            index.append(distance.argmin(dim=-1))
            quantised = codebook.look_up(index[-1])
            beta = self.config.temperature / codebook.error.clamp_min(SMALLEST_ERROR)
            logits.append(mix_uniform(-beta * distance, self.config.unimix))
            encoded.append(residual)
            vector.append(quantised + (residual - residual.detach()) / self.depth)
            residual = residual - quantised
        chosen = rearrange(index, "depth ... k -> ... (k depth)")
        joined = rearrange(logits, "depth ... k v -> ... (k depth) v")
        probs = joined.exp()
        return Codes(
            index=chosen,
            logits=joined,
            sample=one_hots(chosen, self.vocabulary, probs.dtype) + (probs - probs.detach()),
            vector=rearrange(vector, "depth ... k d -> ... (k depth) d"),
            encoded=rearrange(encoded, "depth ... k d -> ... (k depth) d"),
        )

    def _stack(self) -> list[Codebook]:
        return [codebook for codebook in self.codebooks if isinstance(codebook, Codebook)]

    def look_up(self, index: Int[Tensor, "*rest K"]) -> Codes:
        return certain(index, self._vectors(index), self.vocabulary)

    def _vectors(self, index: Int[Tensor, "*rest K"]) -> Float[Tensor, "*rest K D"]:
        by_depth = rearrange(index, "... (k depth) -> depth ... k", depth=self.depth)
        pairs = zip(self._stack(), by_depth, strict=True)
        vectors = [codebook.look_up(each) for codebook, each in pairs]
        return rearrange(vectors, "depth ... k d -> ... (k depth) d")

    def decode(self, codes: Codes, context: Context | None = None) -> Float[Tensor, "*rest C H W"]:
        cells = reduce(codes.vector, "... (k depth) d -> ... k d", "sum", depth=self.depth)
        return self.to_frames(cells)

    def losses(
        self,
        frames: Float[Tensor, "B T C H W"],
        codes: Codes,
        mask: Bool[Tensor, "B T"],
        context: Context | None = None,
    ) -> Losses:
        """Squared errors, summed over pixels, and over all residuals."""
        left = codes.encoded - self._vectors(codes.index)
        terms = {
            "reconstruction": pixel_error(self.decode(codes), frames),
            "commitment": left.square().sum(dim=(-2, -1)),
        }
        metrics = usage_metrics(code_histogram(codes.index, mask, self.vocabulary))
        last = rearrange(left.detach(), "... (k depth) d -> depth ... k d", depth=self.depth)[-1]
        metrics["residual"] = masked_mean(last.square().mean(dim=(-2, -1)), mask)
        masks = dict.fromkeys(terms, mask)
        return Losses(terms, masks, metrics, self._updates(codes, mask), SCALES)

    def _updates(self, codes: Codes, mask: Bool[Tensor, "B T"]) -> tuple[Callable[[], None], ...]:
        encoded = rearrange(
            codes.encoded.detach(), "b t (k depth) d -> depth b t k d", depth=self.depth
        )
        index = rearrange(codes.index, "b t (k depth) -> depth b t k", depth=self.depth)
        stack = enumerate(self._stack())
        return tuple(
            partial(book.update, encoded[place][mask], index[place][mask]) for place, book in stack
        )
