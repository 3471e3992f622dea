"""Dropout whose random numbers cost little on a CPU."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.nets.eager import eager_on_cpu

PIECE = 2**17
"""Numbers drawn at a time: few enough to be in the cache when they are used."""
WORDS = 2**32


class Coins:
    """Ones, and zeros by chance; torch seeds them, and draws its own five times more slowly."""

    def __init__(self, zeros: float) -> None:
        seed = int(torch.randint(2**62, ()))
        self.generator = np.random.Generator(np.random.SFC64(seed))
        self.least = min(round(zeros * WORDS), WORDS - 1) - WORDS // 2

    def toss(self, result: Float[Tensor, "*some"]) -> Float[Tensor, "*some"]:
        """Write over a tensor that lies in one piece."""
        for piece in result.view(-1).split(PIECE):
            pairs = self.generator.integers(0, 2**64, (len(piece) + 1) // 2, dtype=np.uint64)
            words = torch.from_numpy(pairs.view(np.int32))[: len(piece)]
            torch.ge(words, self.least, out=piece)
        return result


class Dropout(nn.Module):
    """Zeros by chance in training, and the rest larger by as much."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Float[Tensor, "*some"]) -> Float[Tensor, "*some"]:
        """As torch's, and by it where x is not on a CPU."""
        if not self.training or self.share == 0.0:
            return x
        if not eager_on_cpu(x):
            return functional.dropout(x, self.share)
        kept = Coins(self.share).toss(torch.empty(x.shape, dtype=x.dtype))
        return x * kept.div_(1 - self.share)
