"""The factorised prior, and KL balancing, which all discrete priors use.

All tokens of the next frame are predicted at once, independent given the history (STEP-VQ, equation
4). Balancing (DreamerV3) moves the prior towards the posterior, and the posterior towards the prior
at a lower weight.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import Codes, Losses, masked_mean
from tokenworlds.nets.distributions import (
    CategoricalDistribution,
    kl_categorical,
    mix_uniform,
    mixed_probs,
    sample_from_probs,
)

Objective = Literal["kl", "reverse-kl", "cross-entropy"]
Span = Literal["frame", "batch"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BalanceConfig:
    """The choices of every balanced prior.

    `reverse-kl` is KL(prior || posterior), as STEP-VQ prints it. Free bits are nats of a whole
    frame: below them a term has no gradient, per frame or by the batch's mean (STORM). The scales
    are the default weights of the two terms; cross-entropy has only `dynamics`, without free bits.
    `unimix` is the uniform share in the prediction. `temperature` is that of sampled tokens: below
    1, unlikely tokens are rarer in dreams.
    """

    objective: Objective = "kl"
    free_bits: float = 1.0
    free_bits_over: Span = "frame"
    dynamics_scale: float = 1.0
    representation_scale: float = 0.1
    unimix: float = 0.01
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise UserError(f"prior.temperature takes a number above 0, not {self.temperature:g}")


def balance_losses(
    config: BalanceConfig,
    prior: Float[Tensor, "B T K V"],
    codes: Codes,
    mask: Bool[Tensor, "B T"],
    metrics: Mapping[str, Tensor],
    weight: Float[Tensor, "B T K"] | None = None,
) -> Losses:
    """`dynamics` moves the prior to the posterior, `representation` the posterior to the prior.

    `weight` is the weight of each token in the sum over a frame.
    """
    if config.objective == "cross-entropy":
        nll = CategoricalDistribution(prior).loss(codes.index)
        terms = {"dynamics": sum_tokens(nll, weight)}
    else:
        terms = {
            "dynamics": divergence(config, codes.logits.detach(), prior, mask, weight),
            "representation": divergence(config, codes.logits, prior.detach(), mask, weight),
        }
    scales = {"dynamics": config.dynamics_scale, "representation": config.representation_scale}
    scales = {name: scales[name] for name in terms}
    entropy = CategoricalDistribution(codes.logits.detach()).entropy().mean(dim=-1)
    metrics = {**metrics, "posterior_entropy": masked_mean(entropy, mask)}
    return Losses(terms, dict.fromkeys(terms, mask), metrics, scales=scales)


def divergence(
    config: BalanceConfig,
    posterior: Float[Tensor, "B T K V"],
    prior: Float[Tensor, "B T K V"],
    mask: Bool[Tensor, "B T"],
    weight: Float[Tensor, "B T K"] | None,
) -> Float[Tensor, "B T"]:
    """The divergence of whole frames, constant where it is below the free bits."""
    pair = (posterior, prior) if config.objective == "kl" else (prior, posterior)
    total = sum_tokens(kl_categorical(*pair), weight)
    if config.free_bits_over == "frame":
        return total.clamp_min(config.free_bits)
    below = masked_mean(total.detach(), mask) < config.free_bits
    return torch.where(below, config.free_bits, total)


def sum_tokens(
    values: Float[Tensor, "B T K"], weight: Float[Tensor, "B T K"] | None
) -> Float[Tensor, "B T"]:
    return (values if weight is None else values * weight).sum(dim=-1)


@torch.no_grad()
def hits(prior: Float[Tensor, "B T K V"], codes: Codes) -> Float[Tensor, "B T K"]:
    """1 where the mode of the prior is the code, else 0."""
    return (prior.argmax(dim=-1) == codes.index).to(prior.dtype)


class Factorised(nn.Module, Component):
    """One linear layer from the history to the logits of all tokens."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(BalanceConfig, ConfigOf["Factorised"]):
        """`shared`: all tokens share one layer, which maps each token's slice of the history
        (Smaller World Models: a 1x1 convolution)."""

        shared: bool = False

    def __init__(
        self,
        config: Config,
        *,
        width: int,
        tokens: int,
        vocabulary: int,
        local: int = 0,
        scored: bool = False,
    ) -> None:
        """With `local`, a vector of this width for each token follows the history, and one layer
        maps all of these vectors to logits, which are added. `scored`: each vector is followed by
        logits of its token, which are added, too."""
        super().__init__()
        self.config = config
        if config.shared and width % tokens:
            raise UserError(
                f"shared=True of the factorised prior cannot split a history of {width} into "
                f"{tokens} equal slices, one per token; use shared=False"
            )
        self.slices, self.vocabulary = tokens if config.shared else 1, vocabulary
        self.logits = nn.Linear(width // self.slices, tokens // self.slices * vocabulary)
        self.width, self.scored = width, scored
        self.cells = nn.Linear(local, vocabulary, bias=False) if local else None
        if self.cells is not None:
            nn.init.zeros_(self.cells.weight)

    def log_probs(self, feature: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest K V"]:
        return mix_uniform(self._logits(feature), self.config.unimix)

    def score(
        self, feature: Float[Tensor, "*rest D"], index: Int[Tensor, "*rest K"]
    ) -> Float[Tensor, "*rest K V"]:
        return self.log_probs(feature)

    def _logits(self, feature: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest K V"]:
        history, vectors = feature[..., : self.width], feature[..., self.width :]
        slices = rearrange(history, "... (s d) -> ... s d", s=self.slices)
        logits: Tensor = self.logits(slices)
        logits = rearrange(logits, "... s (k v) -> ... (s k) v", v=self.vocabulary)
        if self.cells is not None:
            channels, scored = self.cells.in_features, self.vocabulary if self.scored else 0
            cells = rearrange(vectors, "... (k c) -> ... k c", c=channels + scored)
            logits = logits + self.cells(cells[..., :channels])
            if self.scored:
                logits = logits + cells[..., channels:]
        return logits

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
        return sample_from_probs(probs, generator, self.config.temperature)
