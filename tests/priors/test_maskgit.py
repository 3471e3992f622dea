"""MaskGIT against a plain implementation of the paper, and the cost of its rounds."""

import math
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import Codes
from tokenworlds.nets.distributions import mixed_probs
from tokenworlds.priors.maskgit import MaskGIT

PAPER = {"width": 512, "tokens": 32, "vocabulary": 32}
DIMENSIONS = {"width": 12, "tokens": 4, "vocabulary": 5}
SIZES: Any = {"embedding": 16, "layers": 2, "heads": 2, "feedforward": 24}


def small(**choices: Any) -> MaskGIT:
    torch.manual_seed(0)
    prior = MaskGIT.Config(**{**SIZES, **choices}).build(**DIMENSIONS)
    with torch.no_grad():
        for parameter in prior.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return prior


def parameters(prior: MaskGIT) -> int:
    return sum(parameter.numel() for parameter in prior.parameters())


def plain_attention(block: Any, x: Tensor) -> Tensor:
    heads = []
    query, key, value = block.input(x).chunk(3, -1)
    size = x.shape[-1] // block.heads
    for head in range(block.heads):
        q, k, v = (part[..., head * size : (head + 1) * size] for part in (query, key, value))
        heads.append((q @ k.mT / math.sqrt(size)).softmax(-1) @ v)
    result: Tensor = block.output(torch.cat(heads, -1))
    return result


def plain_log_probs(prior: MaskGIT, feature: Tensor, index: Tensor) -> Tensor:
    """As in the paper: embed, concatenate, map, attend, and compare with the embeddings."""
    context = feature[:, None].expand(-1, prior.tokens, -1)
    if prior.config.conditioning == "slices":
        context = feature.reshape(len(feature), prior.tokens, -1)
    x = prior.input(torch.cat([prior.table[index], context], -1)) + prior.positions
    net: Any = prior.net
    for block in net.blocks:
        x = x + plain_attention(block, block.attention_norm(x))
        x = x + block.feedforward(block.feedforward_norm(x))
    known = net.head(net.summary(x))
    readout = prior.table[:-1] if prior.readout is None else prior.readout
    probs: Tensor = (known @ readout.T + prior.bias).softmax(-1)
    return (0.99 * probs + 0.01 / prior.vocabulary).log()


def test_it_has_the_published_number_of_parameters() -> None:
    assert parameters(MaskGIT.Config().build(**PAPER)) == 458_784
    assert parameters(MaskGIT.Config(logits="mlp").build(**PAPER)) == 458_784 + 32 * 128


@pytest.mark.parametrize("logits", ["dot-product", "mlp"])
@pytest.mark.parametrize("conditioning", ["slices", "whole"])
def test_the_prediction_equals_the_plain_form(
    conditioning: Literal["slices", "whole"], logits: Literal["dot-product", "mlp"]
) -> None:
    prior = small(conditioning=conditioning, logits=logits)
    feature, index = torch.randn(7, 12), torch.randint(6, (7, 4))
    found = prior.log_probs(feature, index)
    torch.testing.assert_close(found, plain_log_probs(prior, feature, index), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_sampling_in_blocks_with_one_mask_equals_the_plain_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prior = MaskGIT.Config().build(**PAPER)
    feature = torch.randn(75, 512)
    recorded: list[Tensor] = []

    def record(logits: Tensor, unimix: float) -> Tensor:
        recorded.append(logits)
        return mixed_probs(logits, unimix)

    monkeypatch.setattr("tokenworlds.priors.maskgit.mixed_probs", record)
    prior.sample(feature, None)
    (logits,) = recorded
    plain = plain_log_probs(prior, feature, torch.full((75, 32), 32))
    probs = 0.99 * logits.softmax(-1) + 0.01 / 32
    torch.testing.assert_close(probs.log(), plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("rounds", "passes"),
    [
        ({}, 1),
        ({"repetitions": 0}, 1),
        ({"draft": 4, "revise": 1, "repetitions": 3}, 1),
        ({"draft": 3, "repetitions": 0}, 3),
        ({"draft": 1, "revise": 2, "repetitions": 3}, 7),
        ({"draft": 4, "revise": 3, "repetitions": 2}, 10),
    ],
)
def test_rounds_that_would_be_discarded_are_not_computed(
    rounds: dict[str, int], passes: int
) -> None:
    prior = small(**rounds)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    prior.net.register_forward_hook(count)
    index = prior.sample(torch.randn(6, 12), torch.Generator().manual_seed(0))
    assert calls == passes
    assert index.max() < prior.vocabulary


def test_a_round_sees_earlier_rounds_but_not_its_own_part() -> None:
    prior = small(draft=4, repetitions=0)
    visible: list[Tensor] = []
    embed = functional.embedding

    def record(index: Tensor, table: Tensor) -> Tensor:
        visible.append(index)
        return embed(index, table)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functional, "embedding", record)
        final = prior.sample(torch.randn(9, 12), torch.Generator().manual_seed(0))
    for number, index in enumerate(visible):
        known = index < prior.vocabulary
        assert (known.sum(-1) == number).all()
        assert torch.equal(index[known], final[known])


def certain(index: Tensor) -> Codes:
    hard = functional.one_hot(index, DIMENSIONS["vocabulary"]).float()
    return Codes(index, hard.clamp_min(1e-8).log(), hard, hard, hard)


def means(prior: MaskGIT, rows: int) -> dict[str, Tensor]:
    torch.manual_seed(1)
    codes = certain(torch.randint(5, (rows, 3, 4)))
    mask = torch.ones(rows, 3, dtype=torch.bool)
    return prior.losses(torch.zeros(rows, 3, 12), codes, mask).means()


def test_masked_tokens_count_as_a_whole_frame_or_as_they_are() -> None:
    """A uniform prediction: ln V per token, for all 4 tokens or for those that are masked."""
    choices: dict[str, Any] = {"free_bits": 0.0, "unimix": 0.0}
    for weighting, count in (("frame", 4.0), ("masked", 2.99)):
        prior = small(weighting=weighting, **choices)
        nn.init.zeros_(prior.table)
        nn.init.zeros_(prior.bias)
        found = means(prior, 2000)
        for name in ("dynamics", "representation"):
            assert found[name].item() == pytest.approx(count * math.log(5), rel=0.02)


@pytest.mark.parametrize(
    ("choices", "dimensions", "words"),
    [
        ({}, {"width": 13}, "conditioning='whole'"),
        ({"draft": 5}, {}, "1 to 4 rounds"),
        ({"revise": 0}, {}, "1 to 4 rounds"),
        ({"repetitions": -1}, {}, "0 or more"),
        ({"heads": 3}, {}, "must divide"),
    ],
)
def test_invalid_choices_are_an_error(
    choices: dict[str, Any], dimensions: dict[str, int], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        MaskGIT.Config(**{**SIZES, **choices}).build(**{**DIMENSIONS, **dimensions})


def test_conditioning_on_the_whole_history_allows_any_width() -> None:
    prior = MaskGIT.Config(**SIZES, conditioning="whole").build(width=13, tokens=4, vocabulary=5)
    assert prior.sample(torch.randn(2, 13), None).shape == (2, 4)
