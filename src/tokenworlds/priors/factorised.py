"""All tokens of the next frame at once, independent given the history (STEP-VQ, equation 4)."""

from dataclasses import dataclass

from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import Codes, Losses, masked_mean
from tokenworlds.nets.distributions import mix_uniform, mixed_probs, sample_from_probs
from tokenworlds.priors.balance import BalanceConfig, balance_losses, hits


class Factorised(nn.Module, Component):
    """One linear layer from the history to the logits of all tokens."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(BalanceConfig, ConfigOf["Factorised"]):
        """`shared`: all tokens share one layer, which maps each token's slice of the history
        (Smaller World Models: a 1x1 convolution)."""

        shared: bool = False

    def __init__(self, config: Config, *, width: int, tokens: int, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        if config.shared and width % tokens:
            raise UserError(
                f"shared=True of the factorised prior cannot split a history of {width} into "
                f"{tokens} equal slices, one per token; use shared=False"
            )
        self.slices, self.vocabulary = tokens if config.shared else 1, vocabulary
        self.logits = nn.Linear(width // self.slices, tokens // self.slices * vocabulary)

    def log_probs(self, feature: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest K V"]:
        return mix_uniform(self._logits(feature), self.config.unimix)

    def _logits(self, feature: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest K V"]:
        slices = rearrange(feature, "... (s d) -> ... s d", s=self.slices)
        logits: Tensor = self.logits(slices)
        return rearrange(logits, "... s (k v) -> ... (s k) v", v=self.vocabulary)

    def losses(
        self, feature: Float[Tensor, "B T D"], codes: Codes, mask: Bool[Tensor, "B T"]
    ) -> Losses:
        prior = self.log_probs(feature)
        hit = hits(prior, codes)
        metrics = {
            "code_accuracy": masked_mean(hit.mean(dim=-1), mask),
            "frame_accuracy": masked_mean(hit.amin(dim=-1), mask),
        }
        return balance_losses(self.config, prior, codes, mask, metrics)

    def sample(
        self, feature: Float[Tensor, "*rest D"], generator: Generator | None
    ) -> Int[Tensor, "*rest K"]:
        probs = mixed_probs(self._logits(feature), self.config.unimix)
        return sample_from_probs(probs, generator)
