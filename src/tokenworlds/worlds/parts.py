"""Which parts a world can use together; what does not fit is refused in one sentence."""

from math import prod
from typing import Any

from jaxtyping import Float
from torch import Tensor

from tokenworlds.core.capabilities import MapTokenizer
from tokenworlds.core.config import ConfigOf, dimensions_of
from tokenworlds.core.errors import UserError
from tokenworlds.core.overrides import snake_case
from tokenworlds.core.protocols import Tokenizer
from tokenworlds.nets.codebooks import CodeVectors
from tokenworlds.priors.gaussian import GaussianPrior

ONE_KIND = "world.prior=gaussian goes with world.tokenizer=gaussian, and no other"


def check_discrete(tokenizer: Any, prior: ConfigOf[Any] | None = None) -> None:
    """Raise unless the tokenizer has a vocabulary and the prior predicts tokens."""
    if not hasattr(tokenizer, "vocabulary"):
        raise UserError(
            f"{type(tokenizer).__name__} has no tokens, which this world predicts: it fits the "
            "world 'grid'"
        )
    if isinstance(prior, GaussianPrior.Config):
        raise UserError(ONE_KIND)


def check_maps(tokenizer: Any, prior: ConfigOf[Any], sequence: ConfigOf[Any]) -> None:
    """Raise unless the tokenizer has a grid of vectors, the prior predicts its kind of latents and
    the sequence model reads maps."""
    if not isinstance(tokenizer, MapTokenizer):
        name = type(tokenizer).__name__
        raise UserError(f"{name} has no grid of vectors, which the world 'grid' reads")
    if isinstance(tokenizer, Tokenizer) == isinstance(prior, GaussianPrior.Config):
        raise UserError(ONE_KIND)
    if "grid" not in dimensions_of(sequence):
        name = snake_case(type(sequence).owner.__name__)
        raise UserError(
            f"world.sequence={name} reads vectors, and the world 'grid' has maps: take convlstm"
        )


def has_cells(tokenizer: Any, prior: ConfigOf[Any]) -> bool:
    """Whether each token has a cell of a grid, and the prior reads a vector for each of them."""
    return cell_grid(tokenizer) is not None and "local" in dimensions_of(prior)


def cell_grid(tokenizer: Any) -> tuple[int, int] | None:
    """The grid of which each token has a cell, if there is one."""
    grid: tuple[int, int] | None = getattr(tokenizer, "grid", None)
    return grid if grid is not None and prod(grid) == tokenizer.tokens else None


def shared_vectors(tokenizer: Any) -> Float[Tensor, "V E"] | None:
    """The vectors of the codebook that all tokens share, if there is one."""
    codebook = getattr(tokenizer, "codebook", None)
    vectors = codebook.vectors if isinstance(codebook, CodeVectors) else codebook
    return vectors.detach() if isinstance(vectors, Tensor) else None
