"""All codes of the next frame at once, independent given the history (STEP-VQ, equation 4)."""

from dataclasses import dataclass
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.types import Codes, Losses, masked_mean
from tokenworlds.nets.distributions import kl_categorical, mix_uniform, sample_index


class Factorised(nn.Module, Component):
    """One linear map from history to the logits of every site."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Factorised"]):
        """Choices. `reverse-kl` is the paper's printed KL(prior || posterior); free bits are nats
        of a whole frame, below which a term no longer pulls."""

        objective: Literal["kl", "reverse-kl", "cross-entropy"] = "kl"
        free_bits: float = 1.0
        unimix: float = 0.01

    def __init__(self, config: Config, *, width: int, tokens: int, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.tokens = tokens
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
        metrics = self._metrics(prior.detach(), codes, mask)
        if self.config.objective == "cross-entropy":
            chosen = prior.gather(-1, codes.index.unsqueeze(-1)).squeeze(-1)
            return Losses({"dynamics": -chosen.sum(dim=-1)}, {"dynamics": mask}, metrics)
        terms = {
            "dynamics": self._divergence(codes.logits.detach(), prior),
            "representation": self._divergence(codes.logits, prior.detach()),
        }
        return Losses(terms, dict.fromkeys(terms, mask), metrics)

    def _divergence(
        self, posterior: Float[Tensor, "B T K V"], prior: Float[Tensor, "B T K V"]
    ) -> Float[Tensor, "B T"]:
        pair = (posterior, prior) if self.config.objective == "kl" else (prior, posterior)
        return kl_categorical(*pair).sum(dim=-1).clamp_min(self.config.free_bits)

    @torch.no_grad()
    def _metrics(self, prior: Tensor, codes: Codes, mask: Tensor) -> dict[str, Tensor]:
        hit = (prior.argmax(dim=-1) == codes.index).float()
        entropy = -(codes.logits.exp() * codes.logits).sum(dim=-1)
        return {
            "code_accuracy": masked_mean(hit.mean(dim=-1), mask),
            "frame_accuracy": masked_mean(hit.amin(dim=-1), mask),
            "posterior_entropy": masked_mean(entropy.mean(dim=-1), mask),
        }

    def sample(
        self, feature: Float[Tensor, "*rest D"], generator: Generator | None
    ) -> Int[Tensor, "*rest K"]:
        """Draw every site by itself."""
        return sample_index(self.log_probs(feature), generator)
