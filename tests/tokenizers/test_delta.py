"""Δ-IRIS's tokenizer: its size, its context, and codes of changes."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, Context, FrameShape
from tokenworlds.nets.codebooks import UnitCodebook
from tokenworlds.nets.residual import FrameEncoder
from tokenworlds.tokenizers.delta import Delta

ATARI = Delta.Config(
    past=FrameEncoder.Config(width=32, latent=16), codebook=UnitCodebook.Config(revivals=400)
)
UPDATES = 130
ACTIONS = ActionSpace(4)
LEVELS: dict[str, Any] = {"multipliers": (1, 1, 2), "halvings": (True, True, True)}
SMALL = Delta.Config(
    encoder=FrameEncoder.Config(width=8, latent=8, **LEVELS),
    past=FrameEncoder.Config(width=8, latent=8, **LEVELS),
    codebook=UnitCodebook.Config(codes=16, width=8),
)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def small(size: int = 16, actions: ActionSpace = ACTIONS, **choices: Any) -> Delta:
    torch.manual_seed(0)
    config = dataclasses.replace(SMALL, **choices)
    return config.build(frame_shape=FrameShape(size, size), action_space=actions)


@pytest.mark.parametrize(
    ("config", "actions", "parts", "total"),
    [
        (Delta.Config(), 17, (69_632, 4_352, 1_548_867, 1_761_608), 5_409_611),
        (ATARI, 18, (73_728, 4_608, 1_567_299, 455_856), 4_126_643),
    ],
    ids=["crafter", "atari"],
)
def test_it_has_the_published_number_of_parameters(
    config: Delta.Config, actions: int, parts: tuple[int, ...], total: int
) -> None:
    space = ActionSpace(actions)
    delta = config.build(frame_shape=FrameShape(64, 64), action_space=space)
    modules = (delta.encoder_action, delta.decoder_action, delta.decoder, delta.past)
    assert tuple(count(module) for module in modules) == parts
    assert count(delta.encoder) == 1_892_992
    assert count(delta.project) + count(delta.expand) == 132_160
    assert delta.codebook.vectors.numel() == 65_536
    assert count(delta) == total
    assert (delta.tokens, delta.vocabulary) == (4, 1024)


def test_actions_may_be_vectors() -> None:
    delta = small(actions=ActionSpace(2, discrete=False))
    context = Context(torch.rand(3, 3, 16, 16), torch.randn(3, 2))
    frames = delta.decode(delta.encode(torch.rand(3, 3, 16, 16), context), context)
    assert frames.shape == (3, 3, 16, 16)


@pytest.mark.parametrize(("size", "patch"), [(16, (1, 1)), (32, (2, 2)), (48, (3, 3))])
def test_the_patch_size_follows_from_the_frame_size(size: int, patch: tuple[int, int]) -> None:
    delta = small(size)
    assert delta.patch == patch
    maps = torch.randn(2, 8, size // 8, size // 8)
    patches = delta._patches(maps)
    assert patches.shape == (2, 4, 8 * patch[0] * patch[1])
    top_right = maps[0, :, : patch[0], patch[1] :]
    torch.testing.assert_close(patches[0, 1], top_right.permute(1, 2, 0).flatten())


@pytest.mark.parametrize(
    ("size", "choices", "words"),
    [
        (20, {}, "20x20 cannot be halved 3 times"),
        (24, {}, "grid=2 does not split the map of 3x3"),
        (16, {"past": FrameEncoder.Config(multipliers=(1,), halvings=(True,))}, "past.halvings"),
    ],
)
def test_sizes_that_do_not_fit_are_an_error(size: int, choices: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        small(size, **choices)


def test_a_missing_past_frame_is_an_error() -> None:
    delta = small()
    with pytest.raises(UserError, match="needs a past frame"):
        delta.encode(torch.rand(1, 3, 16, 16))
    with pytest.raises(UserError, match="needs a past frame"):
        delta.decode(delta.look_up(torch.zeros(1, 4, dtype=torch.long)))


def test_codes_and_frames_depend_on_the_past_frame_and_the_action() -> None:
    delta = small()
    frames, past = torch.rand(1, 3, 16, 16), torch.rand(2, 1, 3, 16, 16)
    actions = ACTIONS.encode(torch.tensor([[0], [1]]))
    with torch.no_grad():
        # Action weights start small: the test needs double precision to see their effect.
        delta.encoder_action.weight.mul_(50)
        delta.decoder_action.weight.mul_(50)
    contexts = [Context(past[0], actions[0]), Context(past[1], actions[0])]
    contexts.append(Context(past[0], actions[1]))
    base, *others = [delta.encode(frames, context) for context in contexts]
    for other in others:
        assert (other.encoded - base.encoded).abs().max() > 1e-2
    base_frame, *other_frames = [delta.decode(base, context) for context in contexts]
    for other_frame in other_frames:
        assert (other_frame - base_frame).abs().max() > 1e-2


def test_the_quantiser_keeps_full_precision_under_autocast() -> None:
    delta = small()
    context = Context(torch.rand(2, 3, 16, 16), torch.eye(4)[:2])
    with torch.autocast("cpu", dtype=torch.float16):
        codes = delta.encode(torch.rand(2, 3, 16, 16), context)
        decoded = delta.decode(codes, context)
    assert {codes.encoded.dtype, codes.logits.dtype, codes.vector.dtype} == {torch.float32}
    assert decoded.dtype == torch.float32
    torch.testing.assert_close(codes.encoded.norm(dim=-1), torch.ones(2, 4))


def test_each_loss_is_what_its_name_says() -> None:
    delta = small()
    frames, action = torch.rand(1, 2, 3, 16, 16), torch.eye(4)[:2].unsqueeze(0)
    context = Context(torch.rand(1, 2, 3, 16, 16), action)
    codes = delta.encode(frames, context)
    losses = delta.losses(frames, codes, torch.ones(1, 2, dtype=torch.bool), context)
    error = (frames - delta._decode(codes.vector, context)).flatten(2)
    gap = (codes.encoded - delta.codebook.vectors[codes.index]).flatten(2)
    torch.testing.assert_close(losses.terms["l1"], error.abs().mean(-1))
    torch.testing.assert_close(losses.terms["l2"], error.square().mean(-1))
    torch.testing.assert_close(losses.terms["max_pixel"], error.square().max(-1).values)
    torch.testing.assert_close(losses.terms["commitment"], gap.square().mean(-1))


def moving_square(batch: int) -> tuple[Tensor, Context]:
    """A square on a background of noise; it is carried one of four ways, which the action does
    not tell: only the codes can."""
    background = torch.rand(batch, 1, 3, 16, 16) * 0.3
    past, frames = background.clone(), background.clone()
    past[..., 6:10, 6:10] = 1.0
    places = torch.tensor([[10, 6], [2, 6], [6, 10], [6, 2]])[torch.randint(4, (batch,))]
    for frame, (top, left) in zip(frames, places.tolist(), strict=True):
        frame[..., top : top + 4, left : left + 4] = 1.0
    return frames, Context(past, torch.eye(4)[torch.zeros(batch, 1, dtype=torch.long)])


def test_it_learns_to_decode_where_a_square_went() -> None:
    # Fast averages and revival: the paper's rates need thousands of updates.
    quick: dict[str, Any] = {"decay": 0.9, "usage_decay": 0.9, "revivals": None}
    delta = small(codebook=UnitCodebook.Config(codes=64, width=8, **quick))
    optimiser = torch.optim.Adam(delta.parameters(), lr=6e-3)
    scales = {"l1": 0.1, "l2": 1.0, "max_pixel": 0.01, "commitment": 0.02}
    mask = torch.ones(16, 1, dtype=torch.bool)
    for _ in range(UPDATES):
        frames, context = moving_square(16)
        losses = delta.losses(frames, delta.encode(frames, context), mask, context)
        optimiser.zero_grad()
        losses.total(scales).backward()
        optimiser.step()
        for follow in losses.after:
            follow()
    frames, context = moving_square(64)
    with torch.no_grad():
        codes = delta.encode(frames, context)
        informed = (delta.decode(codes, context) - frames).square().mean()
        misled = dataclasses.replace(codes, vector=codes.vector.roll(1, 0))
        uninformed = (delta.decode(misled, context) - frames).square().mean()
    standing = (context.frame - frames).square().mean()
    assert informed < 0.25 * standing
    assert informed < 0.25 * uninformed
