"""The tokenizer of Smaller World Models: its size, its losses and its code usage."""

import copy
import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import FrameShape
from tokenworlds.nets.codebooks import AveragedCodebook
from tokenworlds.nets.strided import Field, StridedEncoder
from tokenworlds.tokenizers.bernoulli_vq import BernoulliVQ

SMALL = BernoulliVQ.Config(
    encoder=StridedEncoder.Config(filters=(8, 16), blocks=1),
    codebook=AveragedCodebook.Config(codes=16, width=8),
)
UPDATES = 60


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def small(channels: int = 1, **choices: Any) -> BernoulliVQ:
    torch.manual_seed(0)
    return dataclasses.replace(SMALL, **choices).build(frame_shape=FrameShape(16, 16, channels))


def squares(number: int = 12) -> Tensor:
    """Grey frames with a bright square, each at a different offset from the grid."""
    frames = torch.full((number, 1, 1, 16, 16), 0.2)
    for row in range(number):
        left, top = row % 4 * 3 + 1, row // 4 * 3 + 1
        frames[row, 0, 0, top : top + 4, left : left + 4] = 0.9
    return frames


def every(frames: Tensor) -> Tensor:
    return torch.ones(frames.shape[:2], dtype=torch.bool)


@pytest.mark.parametrize(
    ("channels", "encoder", "decoder"), [(1, 2_010_624, 2_074_593), (4, 2_012_160, 2_076_132)]
)
def test_it_has_the_published_number_of_parameters(
    channels: int, encoder: int, decoder: int
) -> None:
    tokenizer = BernoulliVQ.Config().build(frame_shape=FrameShape(96, 96, channels))
    assert (count(tokenizer.encoder), count(tokenizer.decoder)) == (encoder, decoder)
    assert tokenizer.codebook.vectors.numel() == 4_096
    assert count(tokenizer) == encoder + decoder
    assert (tokenizer.grid, tokenizer.tokens, tokenizer.vocabulary) == ((6, 6), 36, 128)


def test_stacked_frames_of_any_fitting_size_are_reconstructed() -> None:
    tokenizer = SMALL.build(frame_shape=FrameShape(16, 24, 4))
    frames = torch.rand(2, 3, 4, 16, 24)
    codes = tokenizer.encode(frames)
    assert (tokenizer.grid, codes.index.shape) == ((4, 6), (2, 3, 24))
    assert tokenizer.decode(codes).shape == frames.shape


def test_frames_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(UserError, match="84x84 cannot be halved 4 times"):
        BernoulliVQ.Config().build(frame_shape=FrameShape(84, 84, 1))


def test_each_loss_is_what_its_name_says() -> None:
    tokenizer, frames = small().eval(), squares(2)
    codes = tokenizer.encode(frames)
    losses = tokenizer.losses(frames, codes, every(frames))
    maps = codes.vector.reshape(2, 4, 4, 8).permute(0, 3, 1, 2)
    law = torch.distributions.ContinuousBernoulli(logits=tokenizer.decoder(maps).unsqueeze(1))
    likelihood = law.log_prob(frames).flatten(2).sum(-1)
    torch.testing.assert_close(losses.terms["reconstruction"], -likelihood, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(tokenizer.decode(codes), law.mean, atol=1e-5, rtol=0)
    gap = codes.encoded - tokenizer.codebook.vectors[codes.index]
    torch.testing.assert_close(losses.terms["commitment"], gap.flatten(2).square().mean(-1))
    assert losses.terms.keys() == {"reconstruction", "commitment"}
    assert losses.weights({}) == {"reconstruction": 1.0, "commitment": 0.25}


def test_both_losses_reach_the_encoder() -> None:
    tokenizer, frames = small(), squares()
    losses = tokenizer.losses(frames, tokenizer.encode(frames), every(frames))
    for name, term in losses.terms.items():
        first = next(tokenizer.encoder.parameters())
        (moved,) = torch.autograd.grad(term.sum(), [first], retain_graph=True)
        assert moved.abs().sum() > 0, name


def test_computing_losses_changes_only_the_statistics_of_norms() -> None:
    tokenizer, frames = small().train(), squares()
    before = copy.deepcopy(tokenizer.state_dict())
    first, second = (
        tokenizer.losses(frames, tokenizer.encode(frames), every(frames)) for _ in range(2)
    )
    moved = {n for n, value in tokenizer.state_dict().items() if not torch.equal(value, before[n])}
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    assert moved == {name for name in before if name.endswith(statistics)}
    for name, term in first.terms.items():
        torch.testing.assert_close(term, second.terms[name])


@pytest.mark.parametrize("field", ["wide", "patch"])
def test_it_learns_squares_with_several_codes(field: Field) -> None:
    encoder = dataclasses.replace(SMALL.encoder, field=field)
    tokenizer, frames = small(encoder=encoder).train(), squares()
    optimizer = torch.optim.Adam(tokenizer.parameters(), lr=3e-3)
    course = [learn(tokenizer, optimizer, frames) for _ in range(UPDATES)]
    reconstruction = [step["reconstruction"] for step in course]
    assert reconstruction[-1] < reconstruction[0] - 50
    assert min(step["codes"] for step in course[UPDATES // 2 :]) > 2


def learn(
    tokenizer: BernoulliVQ, optimizer: torch.optim.Optimizer, frames: Tensor
) -> dict[str, float]:
    """One update; returns the reconstruction loss and the number of codes in use."""
    losses = tokenizer.losses(frames, tokenizer.encode(frames), every(frames))
    optimizer.zero_grad()
    losses.total({}).backward()
    optimizer.step()
    for follow in losses.after:
        follow()
    used = losses.metrics["code_usage"] * tokenizer.vocabulary
    return {"reconstruction": losses.means()["reconstruction"].item(), "codes": used.item()}


def test_likelihoods_are_in_full_precision_under_autocast() -> None:
    tokenizer, frames = small(), squares()
    with torch.autocast("cpu", dtype=torch.float16):
        codes = tokenizer.encode(frames)
        losses = tokenizer.losses(frames, codes, every(frames))
        decoded = tokenizer.decode(codes)
    tensors = [codes.encoded, codes.logits, codes.vector, decoded, *losses.terms.values()]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}
    distance = torch.cdist(codes.encoded.double(), tokenizer.codebook.vectors.double())
    assert torch.equal(codes.index, distance.argmin(-1))
