"""Attention with a KV cache against attention written out."""

import math

import pytest
import torch
from torch import Tensor

from tokenworlds.core.errors import UserError
from tokenworlds.core.trees import map_tensors
from tokenworlds.nets.attention import Attention, ScanPlan, Slots, plan_scan, rotate_to
from tokenworlds.nets.transformer import TransformerCarry
from tokenworlds.sequence.transformer import Transformer

WINDOW = 4


def make_model(layers: int = 1, window: int = WINDOW) -> Transformer:
    torch.manual_seed(0)
    config = Transformer.Config(width=8, layers=layers, heads=2, feedforward=12, window=window)
    return config.build().double().eval()


def random_steps(steps: int) -> Tensor:
    return torch.randn(2, steps, 8, dtype=torch.float64)


def no_reset(x: Tensor) -> Tensor:
    return torch.zeros(x.shape[:2], dtype=torch.bool)


def turned(vector: Tensor, position: int) -> Tensor:
    rotation = rotate_to(torch.tensor(position), vector.shape[-1], vector.dtype)
    return rotation(vector[None, None]).flatten()


@pytest.mark.parametrize("start", [0, 1000, 2**24 - 3, 10**12])
def test_rotary_products_depend_on_the_distance_alone_at_any_position(start: int) -> None:
    query, key = torch.randn(2, 16, generator=torch.Generator().manual_seed(0))
    near = turned(query, 7) @ turned(key, 2)
    far = turned(query, start + 7) @ turned(key, start + 2)
    assert abs(near - far) < 1e-5
    assert abs(near - turned(query, 8) @ turned(key, 2)) > 1e-2


def test_the_first_pair_turns_by_one_radian_a_step() -> None:
    vector = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    expected = torch.tensor([math.cos(3), 0, math.sin(3), 0], dtype=torch.float64)
    torch.testing.assert_close(turned(vector, 3), expected, rtol=0, atol=1e-6)


def written_out(attention: Attention, x: Tensor, window: int) -> Tensor:
    """Softmax attention of one row, query by query."""
    parts = attention.input(x).view(len(x), 3, attention.heads, -1)
    outputs = []
    for t in range(len(x)):
        first = max(0, t - window + 1)
        heads = []
        for head in range(attention.heads):
            query = turned(parts[t, 0, head], t)
            keys = torch.stack([turned(parts[s, 1, head], s) for s in range(first, t + 1)])
            weight = (keys @ query / math.sqrt(len(query))).softmax(0)
            heads.append(weight @ parts[first : t + 1, 2, head])
        outputs.append(attention.output(torch.cat(heads)))
    return torch.stack(outputs)


def plan_for(x: Tensor, window: int) -> ScanPlan:
    slots = Slots(torch.full((2, window), -1), torch.zeros(2, dtype=torch.long))
    return plan_scan(slots, no_reset(x), window, x.dtype)


def test_scan_is_softmax_attention_in_a_window() -> None:
    torch.manual_seed(0)
    attention, x = Attention(8, 2).double(), random_steps(11)
    rotation = rotate_to(torch.arange(11).expand(2, 11), 4, x.dtype)
    y, _ = attention.scan(x, attention.initial(2, WINDOW), plan_for(x, WINDOW), rotation)
    for row in range(2):
        torch.testing.assert_close(y[row], written_out(attention, x[row], WINDOW))


def test_one_layer_attends_to_its_window_only() -> None:
    model, x = make_model(), random_steps(9)
    y, _ = model.scan(x, no_reset(x), model.initial(2))
    changed = x.clone()
    changed[:, 2] += 1.0
    other, _ = model.scan(changed, no_reset(x), model.initial(2))
    differs = (other - y).abs().amax((0, 2)) > 1e-9
    assert differs.tolist() == [False, False, True, True, True, True, False, False, False]


@torch.no_grad()
def test_steps_continue_after_the_slots_have_wrapped_around() -> None:
    model, x = make_model(layers=2), random_steps(31)
    y, _ = model.scan(x, no_reset(x), model.initial(2))
    carry = model.initial(2)
    for t in range(31):
        step, carry = model.step(x[:, t], carry)
        torch.testing.assert_close(step, y[:, t], rtol=0, atol=1e-12)
    assert carry.slots.held.sort(1).values.tolist() == [[27, 28, 29, 30]] * 2


def test_a_long_scan_keeps_the_last_steps_in_their_slots() -> None:
    model, x = make_model(), random_steps(10)
    _, carry = model.scan(x, no_reset(x), model.initial(2))
    assert carry.slots.held.tolist() == [[8, 9, 6, 7]] * 2


def test_a_reset_empties_the_slots_of_earlier_steps() -> None:
    model, x = make_model(), random_steps(3)
    _, carry = model.scan(x, no_reset(x), model.initial(2))
    reset = torch.tensor([[False, False], [False, True]])
    _, carry = model.scan(x[:, :2], reset, carry)
    assert carry.slots.held.tolist() == [[4, 1, 2, 3], [4, -1, -1, -1]]


@pytest.mark.parametrize(("steps", "slots"), [(None, 4), (2, 2), (9, 4), (0, 1)])
def test_slots_are_the_announced_steps_or_a_window(steps: int | None, slots: int) -> None:
    carry = make_model().initial(3, steps)
    assert carry.caches[0].keys.shape == (3, 2, slots, 4)


def snapshot(carry: TransformerCarry) -> TransformerCarry:
    return map_tensors(lambda leaf: leaf.clone(), carry)


@torch.no_grad()
def test_without_autograd_a_step_writes_to_its_slot_only() -> None:
    model, x = make_model(), random_steps(2)
    _, carry = model.step(x[:, 0], model.initial(2))
    before = snapshot(carry)
    _, after = model.step(x[:, 1], carry)
    keys = carry.caches[0].keys
    assert after.caches[0].keys.data_ptr() == keys.data_ptr()
    assert keys[:, :, 1].any()
    others = [0, 2, 3]
    assert torch.equal(keys[:, :, others], before.caches[0].keys[:, :, others])
    assert torch.equal(carry.slots.held, before.slots.held)


def test_a_carry_that_autograd_needs_is_not_overwritten() -> None:
    model, x = make_model(), random_steps(3)
    y, carry = model.scan(x, no_reset(x), model.initial(2))
    before = snapshot(carry)
    with torch.no_grad():
        model.step(x[:, 0], carry)
    assert torch.equal(carry.caches[0].keys, before.caches[0].keys)
    further, _ = model.step(x[:, 0], carry)
    (y.sum() + further.sum()).backward()


def test_heads_must_divide_half_the_width() -> None:
    with pytest.raises(UserError, match=r"heads=3 .* 512"):
        Transformer.Config(heads=3).build()


@torch.no_grad()
def test_mixed_precision_steps_as_it_scans() -> None:
    model = make_model().float()
    x = random_steps(3).float()
    with torch.autocast("cpu", dtype=torch.float16):
        y, _ = model.scan(x, no_reset(x), model.initial(2))
        carry = model.initial(2)
        for t in range(3):
            step, carry = model.step(x[:, t], carry)
            torch.testing.assert_close(step, y[:, t], rtol=0, atol=0.02)
    assert carry.caches[0].keys.dtype == torch.float32


def attend_once(attention: Attention) -> Tensor:
    x = torch.ones(2, 6, 8, dtype=torch.float64)
    return attention.scan(x, attention.initial(2, 6), plan_for(x, 6), None)[0]


def test_without_rotation_equal_steps_give_equal_outputs() -> None:
    y = attend_once(Attention(8, 2).double())
    torch.testing.assert_close(y, y[:, :1].expand_as(y), rtol=0, atol=1e-12)


def test_dropout_of_weights_acts_in_training_only() -> None:
    torch.manual_seed(0)
    attention = Attention(8, 2, dropout=0.5).double()
    whole = attend_once(attention.eval())
    first = attend_once(attention.train())
    assert not torch.equal(first, whole)
    assert torch.equal(attend_once(attention.eval()), whole)


def test_attention_has_no_dropout_unless_asked_for() -> None:
    torch.manual_seed(0)
    attention = Attention(8, 2).double().train()
    assert torch.equal(attend_once(attention), attend_once(attention))
