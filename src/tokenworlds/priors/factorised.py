"""All codes of the next frame at once, independent given the history (STEP-VQ, equation 4)."""

from dataclasses import dataclass

from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.types import Codes, Losses, masked_mean
from tokenworlds.nets.distributions import mix_uniform, sample_index
from tokenworlds.priors.balance import Balance, Objective, Span, hits, posterior_entropy


class Factorised(nn.Module, Component):
    """One linear map from history to the logits of every site."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Factorised"]):
        """Choices. `reverse-kl` is the paper's printed KL(prior || posterior); free bits are nats
        of a whole frame, below which a term no longer pulls, be it by the frame or by the mean
        over the batch (STORM)."""

        objective: Objective = "kl"
        free_bits: float = 1.0
        free_bits_over: Span = "frame"
        unimix: float = 0.01

    def __init__(self, config: Config, *, width: int, tokens: int, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.tokens = tokens
        self.balance = Balance(config.objective, config.free_bits, config.free_bits_over)
        self.logits = nn.Linear(width, tokens * vocabulary)

    def log_probs(self, feature: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest K V"]:
        """The prediction at each site."""
        logits = rearrange(self.logits(feature), "... (k v) -> ... k v", k=self.tokens)
        return mix_uniform(logits, self.config.unimix)

    def losses(
        self, feature: Float[Tensor, "B T D"], codes: Codes, mask: Bool[Tensor, "B T"]
    ) -> Losses:
        """`dynamics` moves the prediction to the codes, `representation` the codes to it."""
        prior = self.log_probs(feature)
        terms = self.balance.terms(prior, codes, mask)
        hit = hits(prior, codes)
        metrics = {
            "code_accuracy": masked_mean(hit.mean(dim=-1), mask),
            "frame_accuracy": masked_mean(hit.amin(dim=-1), mask),
            "posterior_entropy": posterior_entropy(codes, mask),
        }
        return Losses(terms, dict.fromkeys(terms, mask), metrics)

    def sample(
        self, feature: Float[Tensor, "*rest D"], generator: Generator | None
    ) -> Int[Tensor, "*rest K"]:
        """Draw every site by itself."""
        return sample_index(self.log_probs(feature), generator)
