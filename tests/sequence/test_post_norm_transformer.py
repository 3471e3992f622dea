"""STORM's transformer against torch's layers, its parameter count and its positions."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.errors import UserError
from tokenworlds.nets.transformer import steps_since_reset
from tokenworlds.sequence.post_norm_transformer import PostNormTransformer


def make_model(positions: int = 8, dropout: float = 0.1) -> PostNormTransformer:
    torch.manual_seed(0)
    config = PostNormTransformer.Config(
        width=8, layers=2, heads=2, feedforward=12, positions=positions, dropout=dropout
    )
    return config.build().double().eval()


def random_steps(steps: int) -> Tensor:
    return torch.randn(2, steps, 8, dtype=torch.float64)


def no_reset(x: Tensor) -> Tensor:
    return torch.zeros(x.shape[:2], dtype=torch.bool)


def test_the_parameter_count_is_storms() -> None:
    model = PostNormTransformer.Config().build()
    assert sum(p.numel() for p in model.parameters()) == 32_768 + 1_024 + 2 * 2_100_736


def test_positions_begin_as_standard_normals() -> None:
    torch.manual_seed(0)
    positions = PostNormTransformer.Config().build().positions.weight
    assert positions.shape == (64, 512)
    assert abs(positions.mean()) < 0.02
    assert abs(positions.std() - 1) < 0.02


def written_out(model: PostNormTransformer, x: Tensor) -> Tensor:
    """Torch's own post-norm layers with the same weights, over one row."""
    y = functional.layer_norm(x + model.positions.weight[: len(x)], (8,), eps=1e-6)
    mask = nn.Transformer.generate_square_subsequent_mask(len(x), dtype=torch.float64)
    for block in model.stack():
        layer = nn.TransformerEncoderLayer(8, 2, 12, layer_norm_eps=1e-6).double().eval()
        with torch.no_grad():
            layer.self_attn.in_proj_weight.copy_(block.attention.input.weight)
            layer.self_attn.out_proj.weight.copy_(block.attention.output.weight)
        layer.linear1.load_state_dict(block.feedforward.get_submodule("0").state_dict())
        layer.linear2.load_state_dict(block.feedforward.get_submodule("2").state_dict())
        nn.init.zeros_(layer.self_attn.in_proj_bias)
        nn.init.zeros_(layer.self_attn.out_proj.bias)
        y = layer(y, src_mask=mask)
    return y


def test_scan_is_a_stack_of_post_norm_layers_over_inputs_with_positions() -> None:
    model, x = make_model(), random_steps(8)
    y, _ = model.scan(x, no_reset(x), model.initial(2))
    for row in range(2):
        torch.testing.assert_close(y[row], written_out(model, x[row]), rtol=0, atol=1e-12)


def test_equal_inputs_differ_by_their_position() -> None:
    model, x = make_model(), random_steps(1).expand(2, 5, 8)
    y, _ = model.scan(x, no_reset(x), model.initial(2))
    assert torch.cdist(y[0], y[0]).add(torch.eye(5)).min() > 1e-2


@pytest.mark.parametrize("before", [1, 3, 7, 20])
@torch.no_grad()
def test_after_a_reset_positions_start_again_exactly(before: int) -> None:
    model, x = make_model(), random_steps(before + 6)
    reset = no_reset(x)
    reset[:, before] = True
    _, carry = model.scan(x[:, : before + 1], reset[:, : before + 1], model.initial(2))
    assert carry.length.tolist() == [1, 1]
    _, fresh = model.step(x[:, before], model.initial(2))
    for t in range(before + 1, before + 6):
        ours, carry = model.step(x[:, t], carry)
        theirs, fresh = model.step(x[:, t], fresh)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-14)


def test_steps_beyond_the_table_share_its_last_position_and_attend_to_a_window() -> None:
    model, x = make_model(positions=3), random_steps(1).expand(2, 12, 8)
    y, carry = model.scan(x, no_reset(x), model.initial(2))
    # Two layers reach back over two windows: from there on, equal inputs give equal outputs.
    torch.testing.assert_close(y[:, 7:], y[:, 6:7].expand(2, 5, 8), rtol=0, atol=1e-12)
    assert not torch.allclose(y[:, 2], y[:, 3])
    assert carry.caches[0].keys.shape[2] == 3
    assert carry.length.tolist() == [12, 12]


def test_steps_are_counted_from_the_last_reset() -> None:
    reset = torch.tensor([[0, 0, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0]]).bool()
    length = steps_since_reset(reset, torch.tensor([4, 7]))
    assert length.tolist() == [[4, 5, 0, 1, 2, 0], [7, 8, 9, 10, 11, 12]]


@pytest.mark.parametrize(("steps", "slots"), [(None, 8), (2, 2), (9, 8), (0, 1)])
def test_slots_are_the_announced_steps_or_the_positions(steps: int | None, slots: int) -> None:
    assert make_model().initial(3, steps).caches[0].keys.shape == (3, 2, slots, 4)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(UserError, match=r"heads=3 .* 512"):
        PostNormTransformer.Config(heads=3).build()
