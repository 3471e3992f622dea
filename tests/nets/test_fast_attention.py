"""Dropout, and attention with dropout in blocks, against their plain forms."""

import pytest
import torch
from torch import Tensor

from tokenworlds.core.group import Group
from tokenworlds.core.sharing import share_of, sharing
from tokenworlds.nets.fast import attention
from tokenworlds.nets.fast.attention import (
    CHUNK,
    Dropout,
    attend_with_dropout,
    plain_attend_with_dropout,
    plain_dropout,
)

BATCH, STEPS, HEADS, SHARE = 3, 150, 2, 0.3


def dropped(share: float, count: int, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    result: Tensor = Dropout(share)(torch.ones(count))
    return result


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_dropout_is_distributed_as_torchs(share: float) -> None:
    fast, plain = dropped(share, 3 * CHUNK + 5), plain_dropout(torch.ones(3 * CHUNK + 5), share)
    for x in (fast, plain):
        assert x.unique().tolist() == pytest.approx([0.0, 1 / (1 - share)])
        assert (x == 0).float().mean().item() == pytest.approx(share, abs=0.003)


def test_neighbours_are_dropped_independently() -> None:
    gone = (dropped(0.3, 2 * CHUNK) == 0).double()
    for lag in (1, 2, CHUNK // 2, CHUNK):
        assert (gone[lag:] * gone[:-lag]).mean().item() == pytest.approx(0.09, abs=0.003)


def test_dropout_is_a_function_of_the_global_seed() -> None:
    assert torch.equal(dropped(0.5, 99, 1), dropped(0.5, 99, 1))
    assert not torch.equal(dropped(0.5, 99, 1), dropped(0.5, 99, 2))
    torch.manual_seed(0)
    layer, x = Dropout(0.5), torch.ones(99)
    assert not torch.equal(layer(x), layer(x))


def test_gradients_pass_where_numbers_do() -> None:
    x = torch.ones(999, requires_grad=True)
    y = Dropout(0.25)(x)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], y.detach())


def test_evaluation_drops_nothing() -> None:
    x = torch.ones(99)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)


def causal_bias(shared: bool) -> Tensor:
    """Row 1 has a reset at step 40, unless rows are equal and share one bias."""
    visible = torch.ones(1 if shared else BATCH, 1, STEPS, STEPS, dtype=torch.bool).tril()
    if not shared:
        visible[1, :, 40:, :40] = False
    return torch.zeros(visible.shape, dtype=torch.float64).masked_fill_(~visible, -torch.inf)


def kept_with(seed: int, joint: Tensor, bias: Tensor) -> Tensor:
    """Which weights are kept: with unit vectors as values, the output is the weights."""
    joint = joint.detach().clone()
    joint[:, :, 2] = torch.eye(STEPS, dtype=torch.float64)[:, None]
    torch.manual_seed(seed)
    return attend_with_dropout(joint, bias, SHARE).transpose(1, 2) > 0


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_attention_in_blocks_is_softmax_attention_with_weights_dropped(
    shared: bool, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = rows * HEADS * attention.BLOCK_STEPS * STEPS
    monkeypatch.setattr(attention, "BLOCK_WEIGHTS", block)
    torch.manual_seed(0)
    joint = torch.randn(BATCH, STEPS, 3, HEADS, STEPS, dtype=torch.float64, requires_grad=True)
    bias, slope = causal_bias(shared), torch.randn(BATCH, STEPS, HEADS, STEPS).double()
    expected = plain_attend_with_dropout(joint, bias, SHARE, kept_with(7, joint, bias))
    torch.manual_seed(7)
    found = attend_with_dropout(joint, bias, SHARE)
    torch.testing.assert_close(found, expected)
    fast, plain = (
        torch.autograd.grad(y, joint, slope, retain_graph=True)[0] for y in (found, expected)
    )
    torch.testing.assert_close(fast, plain)


def test_a_share_of_the_visible_weights_is_dropped() -> None:
    joint, bias = torch.zeros(BATCH, STEPS, 3, HEADS, STEPS).double(), causal_bias(True)
    kept = kept_with(0, joint, bias)
    visible = (bias == 0).expand_as(kept)
    assert not (kept & ~visible).any()
    assert kept[visible].double().mean().item() == pytest.approx(1 - SHARE, abs=0.01)


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_drop_the_weights_that_one_process_drops(
    ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two rows in a block, so that blocks lie on one rank, on the other and on both."""
    rows, steps, heads = 7, 12, 2
    monkeypatch.setattr(attention, "BLOCK_WEIGHTS", 2 * heads * steps * steps)
    joint = torch.randn(rows, steps, 3, heads, 4, requires_grad=True)
    bias = torch.full((steps, steps), -torch.inf).triu(1)[None, None]
    expected = attend_seeded(joint, bias)
    shares = [share_of(Group(rank, ranks), rows) for rank in range(ranks)]
    parts = []
    for rank, share in enumerate(shares):
        with sharing(Group(rank, ranks), share):
            parts.append(attend_seeded(joint[share.rows], bias))
    torch.testing.assert_close(torch.cat(parts), expected)
    upstream = torch.randn_like(expected)
    gradients = [
        torch.autograd.grad(result, joint, upstream)[0] for result in (torch.cat(parts), expected)
    ]
    torch.testing.assert_close(*gradients)


def attend_seeded(joint: Tensor, bias: Tensor) -> Tensor:
    torch.manual_seed(0)
    return attend_with_dropout(joint, bias, SHARE)
