"""Gaussian latents: samples, divergence from the prior, and learning."""

import copy
import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import FrameShape
from tokenworlds.nets.strided import StridedEncoder
from tokenworlds.tokenizers.gaussian import GaussianTokenizer

SMALL = GaussianTokenizer.Config(encoder=StridedEncoder.Config(filters=(8, 16), blocks=1), width=2)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def small(**choices: Any) -> GaussianTokenizer:
    torch.manual_seed(0)
    return dataclasses.replace(SMALL, **choices).build(frame_shape=FrameShape(16, 16, 1))


def shades(number: int = 4) -> Tensor:
    """Frames whose left and right halves differ."""
    frames = torch.full((number, 1, 1, 16, 16), 0.1)
    for row in range(number):
        frames[row, ..., : 4 * (row + 1)] = 0.9
    return frames


def every(frames: Tensor) -> Tensor:
    return torch.ones(frames.shape[:2], dtype=torch.bool)


def test_a_width_of_one_changes_only_the_layers_at_the_bottleneck() -> None:
    gaussian = GaussianTokenizer.Config().build(frame_shape=FrameShape(96, 96, 1))
    # With 32 channels they have 8,192 + 64 in the encoder and 32 * 256 * 9 in the decoder.
    assert count(gaussian.encoder) == 2_010_624 - 8_256 + 2 * 256 + 2
    assert count(gaussian.decoder) == 2_074_593 - 31 * 256 * 9
    assert (gaussian.grid, gaussian.tokens, gaussian.width) == ((6, 6), 36, 1)


def test_latents_and_decoded_frames_have_the_stated_shape() -> None:
    gaussian, frames = small(), torch.rand(2, 3, 1, 16, 16)
    latent = gaussian.encode(frames)
    shapes = {latent.vector.shape, latent.mean.shape, latent.log_variance.shape}
    assert shapes == {(2, 3, gaussian.tokens, gaussian.width)}
    decoded = gaussian.decode(latent)
    assert decoded.shape == frames.shape
    assert 0 <= decoded.min() <= decoded.max() <= 1


@pytest.mark.parametrize("training", [True, False])
def test_vectors_are_sampled_from_the_normals(training: bool) -> None:
    gaussian = small().train(training)
    latent = gaussian.encode(shades(1).expand(4000, -1, -1, -1, -1))
    noise = (latent.vector - latent.mean) / (latent.log_variance / 2).exp()
    torch.testing.assert_close(noise.mean(dim=0), torch.zeros(1, 16, 2), atol=0.1, rtol=0)
    torch.testing.assert_close(noise.std(dim=0), torch.ones(1, 16, 2), atol=0.1, rtol=0)


def test_samples_come_from_the_global_generator() -> None:
    gaussian, frames = small().eval(), shades()
    state = torch.get_rng_state()
    first = gaussian.encode(frames).vector
    assert not torch.equal(gaussian.encode(frames).vector, first)
    torch.set_rng_state(state)
    assert torch.equal(gaussian.encode(frames).vector, first)


def test_encoding_to_the_mean_is_a_choice() -> None:
    latent = small(samples=False).encode(shades())
    assert torch.equal(latent.vector, latent.mean)


def test_each_loss_is_what_its_name_says() -> None:
    gaussian, frames = small().eval(), shades()
    latent = gaussian.encode(frames)
    losses = gaussian.losses(frames, latent, every(frames))
    posterior = torch.distributions.Normal(latent.mean, (latent.log_variance / 2).exp())
    prior = torch.distributions.Normal(torch.zeros(()), torch.ones(()))
    kl = torch.distributions.kl_divergence(posterior, prior).flatten(2).sum(-1)
    torch.testing.assert_close(losses.terms["kl"], kl)
    maps = latent.vector.reshape(4, 4, 4, 2).permute(0, 3, 1, 2)
    pixels = torch.distributions.ContinuousBernoulli(logits=gaussian.decoder(maps).unsqueeze(1))
    likelihood = pixels.log_prob(frames).flatten(2).sum(-1)
    torch.testing.assert_close(losses.terms["reconstruction"], -likelihood, atol=1e-3, rtol=1e-4)
    assert losses.terms.keys() == {"reconstruction", "kl"}
    assert losses.weights({}) == {"reconstruction": 1.0, "kl": 1.0}


def test_gradients_of_samples_reach_mean_and_variance() -> None:
    latent = small().encode(shades())
    parameters = [latent.mean, latent.log_variance]
    to_mean, to_spread = torch.autograd.grad(latent.vector.sum(), parameters)
    torch.testing.assert_close(to_mean, torch.ones_like(to_mean))
    torch.testing.assert_close(to_spread, (latent.vector - latent.mean) / 2)


def test_vectors_decode_to_the_frames_of_their_latents() -> None:
    gaussian = small().eval()
    latent = gaussian.encode(shades())
    assert torch.equal(
        gaussian.decode_vectors(gaussian.token_vectors(latent.vector)), gaussian.decode(latent)
    )


def test_encoded_vectors_are_the_mean() -> None:
    gaussian = small().eval()
    assert torch.equal(gaussian.encode_vectors(shades()), gaussian.encode(shades()).mean)


def test_computing_losses_changes_only_the_statistics_of_norms() -> None:
    gaussian, frames = small().train(), shades()
    before = copy.deepcopy(gaussian.state_dict())
    losses = gaussian.losses(frames, gaussian.encode(frames), every(frames))
    moved = {n for n, value in gaussian.state_dict().items() if not torch.equal(value, before[n])}
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    assert moved == {name for name in before if name.endswith(statistics)}
    assert losses.after == ()


def test_padding_counts_in_no_loss() -> None:
    gaussian, frames = small(samples=False).eval(), torch.rand(2, 3, 1, 16, 16)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    other = torch.where(mask[..., None, None, None], frames, 1 - frames)
    means = [gaussian.losses(each, gaussian.encode(each), mask).means() for each in (frames, other)]
    for name, value in means[0].items():
        torch.testing.assert_close(value, means[1][name])


def test_it_learns_to_reconstruct_frames() -> None:
    gaussian, frames = small().train(), shades()
    optimizer = torch.optim.Adam(gaussian.parameters(), lr=3e-3)
    for _ in range(150):
        losses = gaussian.losses(frames, gaussian.encode(frames), every(frames))
        optimizer.zero_grad()
        losses.total({}).backward()
        optimizer.step()
    gaussian.eval()
    error = (gaussian.decode(gaussian.encode(frames)) - frames).abs().mean()
    assert error < 0.1


def test_likelihoods_are_in_full_precision_under_autocast() -> None:
    gaussian, frames = small(), shades()
    with torch.autocast("cpu", dtype=torch.float16):
        latent = gaussian.encode(frames)
        losses = gaussian.losses(frames, latent, every(frames))
    tensors = [latent.vector, latent.mean, latent.log_variance, *losses.terms.values()]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}


def test_frames_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(UserError, match="84x84 cannot be halved 4 times"):
        GaussianTokenizer.Config().build(frame_shape=FrameShape(84, 84, 1))
