"""What holds for every tokenizer, found by walking the package."""

import importlib
import pkgutil
from typing import Any

import pytest
import torch
from torch import nn

import tokenworlds.tokenizers
from tokenworlds.core.config import Component
from tokenworlds.core.types import FrameShape


def members() -> list[type[Any]]:
    found = []
    for info in pkgutil.iter_modules(tokenworlds.tokenizers.__path__):
        module = importlib.import_module(f"tokenworlds.tokenizers.{info.name}")
        for value in vars(module).values():
            own = getattr(value, "__module__", None) == module.__name__
            if own and isinstance(value, type) and issubclass(value, Component):
                found.append(value)
    return found


@pytest.fixture(params=members(), ids=lambda member: member.__name__)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(0)
    config = request.param.Config(filters=(8, 16), strides=(2, 2), kernel=3, groups=4)
    return config.build(frame_shape=FrameShape(16, 16)).eval()


def frames(*lead: int) -> torch.Tensor:
    return torch.rand(*lead, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def test_codes_have_the_stated_shape_and_range(tokenizer: Any) -> None:
    codes = tokenizer.encode(frames(2, 5))
    assert codes.index.shape == (2, 5, tokenizer.tokens)
    assert codes.logits.shape == (2, 5, tokenizer.tokens, tokenizer.vocabulary)
    assert codes.index.min() >= 0
    assert codes.index.max() < tokenizer.vocabulary


def test_the_posterior_is_normalised_and_the_code_its_likeliest(tokenizer: Any) -> None:
    codes = tokenizer.encode(frames(3))
    torch.testing.assert_close(codes.logits.exp().sum(-1), torch.ones(3, tokenizer.tokens))
    assert torch.equal(codes.logits.argmax(-1), codes.index)


def test_samples_are_one_hot_with_the_gradient_of_probabilities(tokenizer: Any) -> None:
    codes = tokenizer.encode(frames(3))
    torch.testing.assert_close(
        codes.sample, nn.functional.one_hot(codes.index, tokenizer.vocabulary).float()
    )
    weights = torch.randn_like(codes.sample)
    encoder = list(tokenizer.encoder.parameters())
    through = torch.autograd.grad((codes.sample * weights).sum(), encoder, retain_graph=True)
    direct = torch.autograd.grad((codes.logits.exp() * weights).sum(), encoder)
    assert any(gradient.abs().sum() > 0 for gradient in direct)
    for left, right in zip(through, direct, strict=True):
        torch.testing.assert_close(left, right)


def test_looking_codes_up_decodes_to_the_same_frames(tokenizer: Any) -> None:
    codes = tokenizer.encode(frames(2, 3))
    looked_up = tokenizer.look_up(codes.index)
    decoded = tokenizer.decode(codes)
    assert decoded.shape == (2, 3, 3, 16, 16)
    assert 0 <= decoded.min() <= decoded.max() <= 1
    torch.testing.assert_close(tokenizer.decode(looked_up), decoded, atol=1e-5, rtol=1e-5)


def test_padding_counts_in_no_loss_and_no_statistic(tokenizer: Any) -> None:
    mask = torch.tensor([[True, True, False], [True, False, False]])
    seen = frames(2, 3)
    other = torch.where(mask[..., None, None, None], seen, 1 - seen)
    results = []
    for batch in (seen, other):
        losses = tokenizer.losses(batch, tokenizer.encode(batch), mask)
        results.append({**losses.means(), **losses.metrics})
        assert all(term.shape == (2, 3) for term in losses.terms.values())
    for name, value in results[0].items():
        torch.testing.assert_close(value, results[1][name], msg=name)


def test_computing_losses_changes_nothing_until_after(tokenizer: Any) -> None:
    before = {name: value.clone() for name, value in tokenizer.state_dict().items()}
    batch = frames(2, 3)
    losses = tokenizer.losses(batch, tokenizer.encode(batch), torch.ones(2, 3, dtype=torch.bool))
    for name, value in tokenizer.state_dict().items():
        assert torch.equal(value, before[name]), name
    for follow in losses.after:
        follow()


def test_learns_to_stand_for_frames(tokenizer: Any) -> None:
    """A few images are told apart and drawn again after some hundred updates."""
    tokenizer.train()
    picture = torch.zeros(4, 1, 3, 16, 16)
    for index in range(4):
        picture[index, 0, :, (index // 2) * 8 : (index // 2) * 8 + 8, (index % 2) * 8 :][
            ..., :8
        ] = 1
    mask = torch.ones(4, 1, dtype=torch.bool)
    optimizer = torch.optim.Adam(tokenizer.parameters(), lr=3e-3)
    for _ in range(250):
        losses = tokenizer.losses(picture, tokenizer.encode(picture), mask)
        optimizer.zero_grad()
        sum(losses.means().values()).backward()
        optimizer.step()
        for follow in losses.after:
            follow()
    tokenizer.eval()
    error = (tokenizer.decode(tokenizer.encode(picture)) - picture).abs().mean()
    assert error < 0.05
