"""KL balancing (DreamerV3): the prior moves towards the posterior, and the posterior towards the
prior at a lower weight."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tokenworlds.core.types import Codes, Losses, masked_mean
from tokenworlds.nets.distributions import kl_categorical

Objective = Literal["kl", "reverse-kl", "cross-entropy"]
Span = Literal["frame", "batch"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BalanceConfig:
    """The choices of every balanced prior.

    `reverse-kl` is KL(prior || posterior), as STEP-VQ prints it. Free bits are nats of a whole
    frame: below them a term has no gradient, per frame or by the batch's mean (STORM). The scales
    are the default weights of the two terms; cross-entropy has only `dynamics`, without free bits.
    `unimix` is the uniform share in the prediction.
    """

    objective: Objective = "kl"
    free_bits: float = 1.0
    free_bits_over: Span = "frame"
    dynamics_scale: float = 1.0
    representation_scale: float = 0.1
    unimix: float = 0.01


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
    terms = balance_terms(config, prior, codes, mask, weight)
    metrics = {**metrics, "posterior_entropy": posterior_entropy(codes, mask)}
    scales = {"dynamics": config.dynamics_scale, "representation": config.representation_scale}
    scales = {name: scales[name] for name in terms}
    return Losses(terms, dict.fromkeys(terms, mask), metrics, scales=scales)


def balance_terms(
    config: BalanceConfig,
    prior: Float[Tensor, "B T K V"],
    codes: Codes,
    mask: Bool[Tensor, "B T"],
    weight: Float[Tensor, "B T K"] | None,
) -> dict[str, Float[Tensor, "B T"]]:
    if config.objective == "cross-entropy":
        chosen = prior.gather(-1, codes.index.unsqueeze(-1)).squeeze(-1)
        return {"dynamics": -sum_tokens(chosen, weight)}
    pairs = {
        "dynamics": (codes.logits.detach(), prior),
        "representation": (codes.logits, prior.detach()),
    }
    terms = {}
    for name, (posterior, prediction) in pairs.items():
        pair = (posterior, prediction) if config.objective == "kl" else (prediction, posterior)
        terms[name] = clip_free_bits(config, sum_tokens(kl_categorical(*pair), weight), mask)
    return terms


def clip_free_bits(
    config: BalanceConfig, divergence: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """The divergence, constant where it is below the free bits."""
    if config.free_bits_over == "frame":
        return divergence.clamp_min(config.free_bits)
    below = masked_mean(divergence.detach(), mask) < config.free_bits
    return torch.where(below, config.free_bits, divergence)


def sum_tokens(
    values: Float[Tensor, "B T K"], weight: Float[Tensor, "B T K"] | None
) -> Float[Tensor, "B T"]:
    return (values if weight is None else values * weight).sum(dim=-1)


@torch.no_grad()
def hits(prior: Float[Tensor, "B T K V"], codes: Codes) -> Float[Tensor, "B T K"]:
    """1 where the mode of the prior is the code, else 0."""
    return (prior.argmax(dim=-1) == codes.index).to(prior.dtype)


@torch.no_grad()
def posterior_entropy(codes: Codes, mask: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """The mean entropy of a token, in nats."""
    entropy = -(codes.logits.exp() * codes.logits).sum(dim=-1)
    return masked_mean(entropy.mean(dim=-1), mask)
