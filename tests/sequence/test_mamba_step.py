"""A step in few operations is the plain step."""

from dataclasses import replace

import pytest
import torch

from tokenworlds.sequence.mamba2 import Mamba2, Mamba2Block


@pytest.fixture
def block() -> Mamba2Block:
    torch.manual_seed(0)
    config = Mamba2.Config(width=16, layers=1, heads=4, state=4)
    return next(iter(Mamba2(config).eval().stack()))


@torch.no_grad()
def test_the_fused_step_adds_what_the_plain_step_returns(block: Mamba2Block) -> None:
    plain = fused = block.layer.initial(3)
    for _ in range(4):
        x = torch.randn(3, 16)
        y, plain = block.layer.step(block.norm(x), plain)
        onto, fused = block.layer.step_onto(x, block.norm(x), fused)
        torch.testing.assert_close(onto, x + y)
        torch.testing.assert_close(fused.taps, plain.taps)
        torch.testing.assert_close(fused.memory, plain.memory)


@torch.no_grad()
def test_changed_weights_are_prepared_again(block: Mamba2Block) -> None:
    x, blank = torch.randn(3, 16), block.layer.initial(3)
    before, state = block.layer.step_onto(x, block.norm(x), blank)
    block.layer.gate.weight.mul_(2)
    after, _ = block.layer.step_onto(x, block.norm(x), replace(blank, prepared=state.prepared))
    fresh, _ = block.layer.step_onto(x, block.norm(x), blank)
    assert not torch.equal(after, before)
    assert torch.equal(after, fresh)
