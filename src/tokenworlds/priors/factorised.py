"""All codes of the next frame at once, independent given the history (STEP-VQ, equation 4)."""

from dataclasses import dataclass

from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import Codes, Losses, masked_mean
from tokenworlds.nets.distributions import draw_index, mix_uniform, mixed_probs
from tokenworlds.priors.balance import Balance, Objective, Span, hits, posterior_entropy


class Factorised(nn.Module, Component):
    """One linear map from history to the logits of every site, or from each site's share of it."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Factorised"]):
        """Choices. `reverse-kl` is the paper's printed KL(prior || posterior); free bits are nats
        of a whole frame, below which a term no longer pulls, be it by the frame or by the mean
        over the batch (STORM). With `shared` all sites have one map, each from its own share of the
        history (Smaller World Models: a 1x1 convolution)."""

        objective: Objective = "kl"
        free_bits: float = 1.0
        free_bits_over: Span = "frame"
        unimix: float = 0.01
        shared: bool = False

    def __init__(self, config: Config, *, width: int, tokens: int, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        if config.shared and width % tokens:
            raise UserError(
                f"shared=True of the factorised prior cuts a history of {width} into {tokens} "
                "shares, one a token, and they do not come out even; shared=False takes any width"
            )
        self.shares, self.vocabulary = tokens if config.shared else 1, vocabulary
        self.balance = Balance(config.objective, config.free_bits, config.free_bits_over)
        self.logits = nn.Linear(width // self.shares, tokens // self.shares * vocabulary)

    def log_probs(self, feature: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest K V"]:
        """The prediction at each site."""
        return mix_uniform(self._logits(feature), self.config.unimix)

    def _logits(self, feature: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest K V"]:
        shares = rearrange(feature, "... (s d) -> ... s d", s=self.shares)
        logits: Tensor = self.logits(shares)
        return rearrange(logits, "... s (k v) -> ... (s k) v", v=self.vocabulary)

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
        return draw_index(mixed_probs(self._logits(feature), self.config.unimix), generator)
