"""Attention with dropout in blocks, against the same written out."""

import pytest
import torch
from torch import Tensor

from tokenworlds.nets import dropped_attention
from tokenworlds.nets.dropped_attention import attend_with_dropout

BATCH, STEPS, HEADS, SHARE = 3, 150, 2, 0.3


def hidden_by(shared: bool) -> Tensor:
    """Zero where a step is seen; row 1 forgets all at step 40, unless rows are alike."""
    seen = torch.ones(1 if shared else BATCH, 1, STEPS, STEPS, dtype=torch.bool).tril()
    if not shared:
        seen[1, :, 40:, :40] = False
    return torch.zeros(seen.shape, dtype=torch.float64).masked_fill_(~seen, -torch.inf)


def whole_weights(joint: Tensor, bias: Tensor) -> Tensor:
    query, key = joint[:, :, 0].transpose(1, 2), joint[:, :, 1].transpose(1, 2)
    score: Tensor = query @ key.mT / joint.shape[-1] ** 0.5 + bias
    return score.softmax(-1)


def kept_with(seed: int, joint: Tensor, bias: Tensor) -> Tensor:
    """Which weights are not dropped: values that tell steps apart show the weights themselves."""
    joint = joint.detach().clone()
    joint[:, :, 2] = torch.eye(STEPS, dtype=torch.float64)[:, None]
    torch.manual_seed(seed)
    return attend_with_dropout(joint, bias, SHARE).transpose(1, 2) > 0


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_it_is_softmax_attention_with_weights_left_out(
    shared: bool, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = rows * HEADS * dropped_attention.STEPS * STEPS
    monkeypatch.setattr(dropped_attention, "WEIGHTS", block)
    torch.manual_seed(0)
    joint = torch.randn(BATCH, STEPS, 3, HEADS, STEPS, dtype=torch.float64, requires_grad=True)
    bias, slope = hidden_by(shared), torch.randn(BATCH, STEPS, HEADS, STEPS).double()
    kept = kept_with(7, joint, bias)
    weight = whole_weights(joint, bias) * kept / (1 - SHARE)
    expected = (weight @ joint[:, :, 2].transpose(1, 2)).transpose(1, 2)
    torch.manual_seed(7)
    found = attend_with_dropout(joint, bias, SHARE)
    torch.testing.assert_close(found, expected)
    by_hand, written_out = (
        torch.autograd.grad(y, joint, slope, retain_graph=True)[0] for y in (found, expected)
    )
    torch.testing.assert_close(by_hand, written_out)


def test_a_share_of_what_is_seen_is_dropped() -> None:
    joint, bias = torch.zeros(BATCH, STEPS, 3, HEADS, STEPS).double(), hidden_by(True)
    kept = kept_with(0, joint, bias)
    seen = (bias == 0).expand_as(kept)
    assert not (kept & ~seen).any()
    assert kept[seen].double().mean().item() == pytest.approx(1 - SHARE, abs=0.01)
