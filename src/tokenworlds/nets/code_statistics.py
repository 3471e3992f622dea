"""How much of a vocabulary is used."""

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor


def code_histogram(
    index: Int[Tensor, "B T K"], mask: Bool[Tensor, "B T"], vocabulary: int
) -> Float[Tensor, " V"]:
    """How often each code occurs on the steps that count; no device is waited for."""
    counted = repeat(mask.float(), "b t -> (b t k)", k=index.shape[-1])
    blank = torch.zeros(vocabulary, device=index.device)
    return blank.scatter_add(0, rearrange(index, "b t k -> (b t k)"), counted)


def usage_metrics(histogram: Float[Tensor, " V"]) -> dict[str, Tensor]:
    """Share of codes in use, and the perplexity of their distribution."""
    share = histogram / histogram.sum().clamp_min(1.0)
    entropy = -(share * share.clamp_min(1e-12).log()).sum()
    return {"code_usage": (histogram > 0).float().mean(), "code_perplexity": entropy.exp()}
