"""The factorised prior: a layer shared by all tokens is a 1x1 convolution; temperatures."""

import pytest
import torch
from einops import rearrange
from torch.nn import functional

from tokenworlds.core.errors import UserError
from tokenworlds.priors.factorised import Factorised
from tokenworlds.priors.maskgit import MaskGIT
from tokenworlds.priors.pixelcnn import PixelCNN

SHARED = Factorised.Config(shared=True, unimix=0.0)


@torch.no_grad()
def test_a_shared_layer_is_a_1x1_convolution() -> None:
    prior = SHARED.build(width=6 * 3, tokens=6, vocabulary=5)
    maps = torch.randn(4, 3, 2, 3)
    found = prior.log_probs(rearrange(maps, "n c h w -> n (h w c)"))
    weight = rearrange(prior.logits.weight, "v c -> v c 1 1")
    logits = functional.conv2d(maps, weight, prior.logits.bias)
    expected = rearrange(logits, "n v h w -> n (h w) v").log_softmax(-1)
    torch.testing.assert_close(found, expected)


def test_a_history_that_cannot_be_sliced_is_an_error() -> None:
    with pytest.raises(UserError, match="history of 13 into 6"):
        SHARED.build(width=13, tokens=6, vocabulary=5)
    prior = Factorised.Config().build(width=13, tokens=6, vocabulary=5)
    assert prior.sample(torch.randn(2, 13), None).shape == (2, 6)


@pytest.mark.parametrize("kind", [Factorised, MaskGIT, PixelCNN])
@torch.no_grad()
def test_a_small_temperature_samples_the_likeliest_tokens(
    kind: type[Factorised | MaskGIT | PixelCNN],
) -> None:
    torch.manual_seed(0)
    prior = kind.Config(temperature=1e-5).build(width=4 * 8, tokens=4, vocabulary=5)
    feature = torch.randn(64, 4 * 8)
    index = prior.sample(feature, torch.Generator().manual_seed(1))
    likeliest = prior.score(feature, index).argmax(-1)
    assert torch.equal(index, likeliest)


def test_a_temperature_that_is_not_positive_is_an_error() -> None:
    with pytest.raises(UserError, match=r"prior\.temperature takes a number above 0, not 0"):
        Factorised.Config(temperature=0.0)
