"""What a world of maps asks of its tokenizer, be it of codes or of normal variables."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.config import ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import Recoded
from tokenworlds.priors.gaussian import GaussianPrior

SHADES = 256
REACH = 3.0
"""Numbers beyond this, which are rare in a standard normal, are drawn as black or white."""


@runtime_checkable
class MapTokenizer(Protocol):
    """A tokenizer whose vectors lie on a grid, and are all that it draws from."""

    grid: tuple[int, int]
    tokens: int
    width: int

    def encode_vectors(self, frames: Float[Tensor, "*rest C H W"]) -> Float[Tensor, "*rest K D"]:
        """The vectors of frames, without chance."""
        ...

    def token_vectors(self, sampled: Tensor) -> Float[Tensor, "*rest K D"]:
        """The vectors of what a prior draws."""
        ...

    def decode_vectors(self, vector: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest C H W"]:
        """Frames in [0, 1]."""
        ...


def insist_on_fit(tokenizer: Any, prior: ConfigOf[Any]) -> None:
    """Raise unless the tokenizer knows of maps, and the prior of what it writes."""
    if not isinstance(tokenizer, MapTokenizer):
        name = type(tokenizer).__name__
        raise UserError(f"world.tokenizer={name} knows of no map: take bernoulli_vq or gaussian")
    if hasattr(tokenizer, "vocabulary") == isinstance(prior, GaussianPrior.Config):
        raise UserError("world.prior=gaussian goes with world.tokenizer=gaussian, and no other")


def facts_of(tokenizer: Any) -> dict[str, int]:
    """What a prior must know of it: how many codes there are, or how many numbers."""
    sites = {"tokens": tokenizer.tokens}
    if hasattr(tokenizer, "vocabulary"):
        return {**sites, "vocabulary": tokenizer.vocabulary}
    return {**sites, "code_width": tokenizer.width}


@contextmanager
def mode(module: nn.Module, *, training: bool) -> Iterator[None]:
    """The module in this mode for a while."""
    before = module.training
    module.train(training)
    try:
        yield
    finally:
        module.train(before)


def shade(
    vector: Float[Tensor, "B T K D"], frame: Float[Tensor, "B T C H W"], grid: tuple[int, int]
) -> Recoded:
    """The numbers of each site as shades of grey, side by side."""
    share = (vector / (2 * REACH) + 0.5).clamp(0, 1)
    index = rearrange((share * (SHADES - 1)).round().long(), "b t k d -> b t (k d)")
    height, width = grid
    return Recoded(index, frame, SHADES, (height, width * vector.shape[-1]), shades=True)
