"""How much of a vocabulary is used."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def code_histogram(
    index: Int[Tensor, "B T K"], mask: Bool[Tensor, "B T"], vocabulary: int
) -> Float[Tensor, " V"]:
    """How often each code occurs on the steps that count."""
    return torch.bincount(index[mask].flatten(), minlength=vocabulary).float()


def usage_metrics(histogram: Float[Tensor, " V"]) -> dict[str, Tensor]:
    """Share of codes in use, and the perplexity of their distribution."""
    share = histogram / histogram.sum().clamp_min(1.0)
    entropy = -(share * share.clamp_min(1e-12).log()).sum()
    return {"code_usage": (histogram > 0).float().mean(), "code_perplexity": entropy.exp()}
