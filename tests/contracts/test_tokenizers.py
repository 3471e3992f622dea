"""The contract of every tokenizer of discrete codes; members are found by walking the package."""

import copy
import inspect
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tokenworlds import tokenizers
from tokenworlds.core.overrides import components, import_member, module_names
from tokenworlds.core.protocols import Tokenizer
from tokenworlds.core.types import ActionSpace, Codes, Context, FrameShape, GaussianLatent
from tokenworlds.nets.codebooks import AveragedCodebook, UnitCodebook
from tokenworlds.nets.residual import FrameEncoder
from tokenworlds.nets.strided import StridedEncoder

FRAME_SHAPE, ACTIONS = FrameShape(16, 16), ActionSpace(3)
CONVOLUTIONS = {"filters": (8, 16), "strides": (2, 2), "kernel": 3, "groups": 4}
LEVELS: dict[str, Any] = {"multipliers": (1, 2), "halvings": (True, True)}
SMALL: dict[str, dict[str, Any]] = {
    "VQ": CONVOLUTIONS,
    "Categorical": CONVOLUTIONS,
    "FSQ": CONVOLUTIONS,
    "LFQ": CONVOLUTIONS,
    "ResidualVQ": CONVOLUTIONS,
    "AttentiveVQ": {
        "width": 8,
        "levels": 3,
        "blocks": 1,
        "attention": (4,),
        "codes": 32,
        "code_width": 16,
    },
    "Delta": {
        "encoder": FrameEncoder.Config(width=8, latent=16, **LEVELS),
        "past": FrameEncoder.Config(width=8, latent=8, **LEVELS),
        "codebook": UnitCodebook.Config(codes=32, width=8),
    },
    "BernoulliVQ": {
        "encoder": StridedEncoder.Config(filters=(8, 16), blocks=1),
        "codebook": AveragedCodebook.Config(codes=32, width=8),
    },
}
"""A small configuration for each member; others are built with their defaults."""


def members() -> list[type[Any]]:
    modules = [import_member(tokenizers, name) for name in module_names(tokenizers)]
    return [member for module in modules for member in components(module)]


def form(member: type[Any]) -> Any:
    """The type that a member encodes frames to."""
    return inspect.signature(member.encode).return_annotation


def discrete() -> list[type[Any]]:
    """Members with a vocabulary; the others have tests of their own."""
    return [member for member in members() if form(member) is Codes]


@pytest.fixture(params=discrete(), ids=lambda member: member.__name__)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(0)
    config = request.param.Config(**SMALL.get(request.param.__name__, {}))
    dimensions = {"frame_shape": FRAME_SHAPE, "action_space": ACTIONS}
    wanted = inspect.signature(request.param.__init__).parameters
    given = {name: value for name, value in dimensions.items() if name in wanted}
    return config.build(**given).eval()


def frames(*lead: int, seed: int = 1) -> Tensor:
    return torch.rand(*lead, 3, 16, 16, generator=torch.Generator().manual_seed(seed))


def context(*lead: int, seed: int = 2) -> Context:
    """The past frame and action; members that need none ignore it."""
    action = torch.randint(3, lead, generator=torch.Generator().manual_seed(seed))
    return Context(frames(*lead, seed=seed), ACTIONS.encode(action))


def test_members_are_found() -> None:
    assert set(SMALL) <= {member.__name__ for member in discrete()}


def test_frames_become_codes_or_latents() -> None:
    assert {form(member) for member in members()} == {Codes, GaussianLatent}


def test_it_is_a_tokenizer(tokenizer: Any) -> None:
    assert isinstance(tokenizer, Tokenizer)


def test_the_grid_has_a_cell_for_each_token(tokenizer: Any) -> None:
    assert tokenizer.grid is None or math.prod(tokenizer.grid) == tokenizer.tokens


def test_default_weights_name_only_terms(tokenizer: Any) -> None:
    batch, past, mask = frames(2, 3), context(2, 3), torch.ones(2, 3, dtype=torch.bool)
    losses = tokenizer.losses(batch, tokenizer.encode(batch, past), mask, past)
    assert losses.scales.keys() <= losses.terms.keys()


def test_codes_have_the_stated_shape_and_range(tokenizer: Any) -> None:
    codes = tokenizer.encode(frames(2, 5), context(2, 5))
    assert codes.index.shape == (2, 5, tokenizer.tokens)
    assert codes.logits.shape == (2, 5, tokenizer.tokens, tokenizer.vocabulary)
    assert codes.index.min() >= 0
    assert codes.index.max() < tokenizer.vocabulary


def test_the_posterior_is_normalised_and_the_code_is_its_mode(tokenizer: Any) -> None:
    codes = tokenizer.encode(frames(3), context(3))
    torch.testing.assert_close(codes.logits.exp().sum(-1), torch.ones(3, tokenizer.tokens))
    assert torch.equal(codes.logits.argmax(-1), codes.index)


def test_samples_are_one_hot_with_the_gradient_of_probabilities(tokenizer: Any) -> None:
    codes = tokenizer.encode(frames(3), context(3))
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


def test_looked_up_codes_decode_to_the_same_frames(tokenizer: Any) -> None:
    before = context(2, 3)
    codes = tokenizer.encode(frames(2, 3), before)
    looked_up = tokenizer.look_up(codes.index)
    decoded = tokenizer.decode(codes, before)
    assert decoded.shape == (2, 3, 3, 16, 16)
    assert 0 <= decoded.min() <= decoded.max() <= 1
    torch.testing.assert_close(tokenizer.decode(looked_up, before), decoded, atol=1e-5, rtol=1e-5)


def test_padding_is_ignored_by_losses_and_statistics(tokenizer: Any) -> None:
    mask = torch.tensor([[True, True, False], [True, False, False]])
    valid = mask[..., None, None, None]
    batch, before, elsewhere = frames(2, 3), context(2, 3), context(2, 3, seed=5)
    other = torch.where(valid, batch, 1 - batch)
    past = torch.where(valid, before.frame, elsewhere.frame)
    action = torch.where(mask[..., None], before.action, elsewhere.action)
    results = [
        learn(tokenizer, batch, mask, before),
        learn(tokenizer, other, mask, Context(past, action)),
    ]
    for name, value in results[0].items():
        torch.testing.assert_close(value, results[1][name], msg=name)


def learn(tokenizer: Any, batch: Tensor, mask: Tensor, before: Context) -> dict[str, Tensor]:
    """Losses, metrics, and the state of a copy after its moving averages."""
    copied = copy.deepcopy(tokenizer)
    losses = copied.losses(batch, copied.encode(batch, before), mask, before)
    assert all(term.shape == mask.shape for term in losses.terms.values())
    torch.manual_seed(0)
    for follow in losses.after:
        follow()
    return {**losses.means(), **losses.metrics, **copied.state_dict()}


def test_computing_losses_changes_nothing_until_after(tokenizer: Any) -> None:
    before = {name: value.clone() for name, value in tokenizer.state_dict().items()}
    batch, past, mask = frames(2, 3), context(2, 3), torch.ones(2, 3, dtype=torch.bool)
    losses = tokenizer.losses(batch, tokenizer.encode(batch, past), mask, past)
    for name, value in tokenizer.state_dict().items():
        assert torch.equal(value, before[name]), name
    for follow in losses.after:
        follow()


def test_it_learns_to_reconstruct_frames(tokenizer: Any) -> None:
    """Four images are reconstructed after 250 updates."""
    tokenizer.train()
    picture = torch.zeros(4, 1, 3, 16, 16)
    for index in range(4):
        picture[index, 0, :, (index // 2) * 8 : (index // 2) * 8 + 8, (index % 2) * 8 :][
            ..., :8
        ] = 1
    mask = torch.ones(4, 1, dtype=torch.bool)
    past = Context(torch.zeros_like(picture), ACTIONS.encode(torch.zeros(4, 1)))
    optimizer = torch.optim.Adam(tokenizer.parameters(), lr=3e-3)
    for _ in range(250):
        losses = tokenizer.losses(picture, tokenizer.encode(picture, past), mask, past)
        optimizer.zero_grad()
        sum(losses.means().values()).backward()
        optimizer.step()
        for follow in losses.after:
            follow()
    tokenizer.eval()
    error = (tokenizer.decode(tokenizer.encode(picture, past), past) - picture).abs().mean()
    assert error < 0.05
