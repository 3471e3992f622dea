"""IRIS's tokenizer: its size, its losses, and the perceptual loss with weights from a file."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import FrameShape
from tokenworlds.tokenizers.attentive_vq import (
    AttentiveVQ,
    Perceptual,
    load_perceptual,
    name_in_file,
)

SMALL = AttentiveVQ.Config(width=8, levels=3, blocks=1, attention=(8,), codes=16, code_width=8)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def small(**choices: Any) -> AttentiveVQ:
    torch.manual_seed(0)
    return dataclasses.replace(SMALL, **choices).build(frame_shape=FrameShape(16, 16))


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    """Random weights with the right names and shapes."""
    with torch.device("meta"):
        wanted = Perceptual().state_dict()
    generator = torch.Generator().manual_seed(0)
    random = {name: torch.randn(value.shape, generator=generator) for name, value in wanted.items()}
    scaled = {name: value / value[0].numel() ** 0.5 for name, value in random.items()}
    return {
        name_in_file(name): value.abs() if name.startswith("heads") else value
        for name, value in scaled.items()
    }


@pytest.fixture(scope="module")
def weights_file(weights: dict[str, Tensor], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("perceptual") / "lpips.safetensors"
    save_file({**weights, "classifier.0.weight": torch.zeros(3)}, path)
    return path


def test_it_has_the_published_number_of_parameters() -> None:
    tokenizer = AttentiveVQ.Config().build(frame_shape=FrameShape(64, 64))
    parts = ("encoder", "project", "codebook", "expand", "decoder")
    sizes = tuple(count(getattr(tokenizer, part)) for part in parts)
    assert sizes == (1_418_240, 262_656, 262_144, 262_656, 1_821_827)
    assert count(tokenizer) == 4_027_523
    assert (tokenizer.tokens, tokenizer.vocabulary) == (16, 512)
    assert tokenizer.codebook.weight.abs().max() <= 1 / 512


def test_one_level_less_gives_four_times_the_tokens() -> None:
    tokenizer = AttentiveVQ.Config(levels=4).build(frame_shape=FrameShape(64, 64))
    assert tokenizer.tokens == 64


def test_frames_that_cannot_be_halved_are_an_error() -> None:
    with pytest.raises(UserError, match="60x64 cannot be halved 4 times"):
        AttentiveVQ.Config().build(frame_shape=FrameShape(60, 64))


def test_each_loss_is_what_its_name_says() -> None:
    tokenizer, frames = small(), torch.rand(1, 2, 3, 16, 16)
    codes = tokenizer.encode(frames)
    losses = tokenizer.losses(frames, codes, torch.ones(1, 2, dtype=torch.bool))
    gap = (codes.encoded - tokenizer.codebook.weight[codes.index]).flatten(2).square().mean(-1)
    decoded = tokenizer._decode(codes.vector)
    error = (2 * frames - 1 - decoded).flatten(2).abs().mean(-1)
    torch.testing.assert_close(losses.terms["codebook"], gap)
    torch.testing.assert_close(losses.terms["commitment"], gap)
    torch.testing.assert_close(losses.terms["reconstruction"], error)
    assert losses.terms.keys() == {"codebook", "commitment", "reconstruction"}
    assert losses.weights({}) == {"codebook": 1.0, "commitment": 1.0, "reconstruction": 1.0}


def test_default_weights_are_part_of_the_configuration() -> None:
    tokenizer = small(commitment_scale=0.25, reconstruction_scale=100.0)
    frames, mask = torch.rand(1, 2, 3, 16, 16), torch.ones(1, 2, dtype=torch.bool)
    losses = tokenizer.losses(frames, tokenizer.encode(frames), mask)
    assert losses.weights({}) == {"codebook": 1.0, "commitment": 0.25, "reconstruction": 100.0}


def test_errors_may_be_squared() -> None:
    tokenizer, frames = small(error="squared"), torch.rand(1, 2, 3, 16, 16)
    codes = tokenizer.encode(frames)
    losses = tokenizer.losses(frames, codes, torch.ones(1, 2, dtype=torch.bool))
    error = (2 * frames - 1 - tokenizer._decode(codes.vector)).flatten(2).square().mean(-1)
    torch.testing.assert_close(losses.terms["reconstruction"], error)


def test_unused_codes_are_moved_onto_the_data_on_request() -> None:
    frames, mask = torch.rand(1, 4, 3, 16, 16), torch.tensor([[True, True, False, False]])
    for share in (0.0, 0.01):
        tokenizer = small(revive_below=share)
        codes, before = tokenizer.encode(frames), tokenizer.codebook.weight.detach().clone()
        for follow in tokenizer.losses(frames, codes, mask).after:
            follow()
        moved = (tokenizer.codebook.weight != before).any(dim=-1)
        used = torch.zeros(16, dtype=torch.bool).index_fill(0, codes.index[mask].flatten(), True)
        assert torch.equal(moved, ~used & (share > 0))
        data, placed = codes.encoded[mask].flatten(0, 1), tokenizer.codebook.weight[moved]
        assert (placed.unsqueeze(1) == data).all(dim=-1).any(dim=-1).all()


def test_a_remark_says_that_the_perceptual_loss_is_left_out(weights_file: Path) -> None:
    assert "IRIS's perceptual loss is left out" in small().remark
    assert small(perceptual_weights=str(weights_file)).remark == ""


def test_only_the_codebook_loss_moves_codes_and_the_others_move_vectors() -> None:
    tokenizer, frames = small(), torch.rand(1, 2, 3, 16, 16)
    losses = tokenizer.losses(frames, tokenizer.encode(frames), torch.ones(1, 2, dtype=torch.bool))
    learnt = {}
    for name, term in losses.terms.items():
        sources = [tokenizer.codebook.weight, tokenizer.project.weight]
        moved = torch.autograd.grad(term.sum(), sources, retain_graph=True, allow_unused=True)
        learnt[name] = tuple(gradient is not None and bool(gradient.any()) for gradient in moved)
    assert learnt == {
        "codebook": (True, False),
        "commitment": (False, True),
        "reconstruction": (False, True),
    }


def test_each_cell_gets_its_nearest_code() -> None:
    tokenizer = small()
    codes = tokenizer.encode(torch.rand(5, 3, 16, 16))
    distance = torch.cdist(codes.encoded, tokenizer.codebook.weight)
    assert torch.equal(codes.index, distance.argmin(-1))


def test_the_perceptual_network_is_frozen_and_has_the_known_size(weights_file: Path) -> None:
    network = load_perceptual(str(weights_file))
    assert count(network.features) == 14_714_688
    assert count(network.heads) == 1_472
    assert not network.training
    assert not any(parameter.requires_grad for parameter in network.parameters())


def test_the_perceptual_distance_is_zero_for_equal_frames_only(weights_file: Path) -> None:
    network, frames = load_perceptual(str(weights_file)), torch.rand(2, 3, 16, 16) * 2 - 1
    assert torch.equal(network(frames, frames.clone()), torch.zeros(2))
    decoded = (frames * 0.5).requires_grad_()
    distance = network(frames, decoded)
    assert (distance > 0).all()
    distance.sum().backward()
    assert decoded.grad is not None
    assert decoded.grad.isfinite().all()
    assert (decoded.grad.abs().amax(dim=(1, 2, 3)) > 0).all()


def test_a_stage_of_zeros_gives_no_infinite_gradient(weights_file: Path) -> None:
    network = load_perceptual(str(weights_file))
    silent = {name: torch.zeros_like(value) for name, value in network.state_dict().items()}
    network.load_state_dict(silent)
    decoded = torch.rand(1, 3, 16, 16).requires_grad_()
    network(torch.rand(1, 3, 16, 16), decoded).sum().backward()
    assert decoded.grad is not None
    assert torch.equal(decoded.grad, torch.zeros_like(decoded.grad))


def test_perceptual_weights_add_a_term_but_no_parameter_and_use_no_random_number(
    weights_file: Path,
) -> None:
    tokenizer = small(perceptual_weights=str(weights_file))
    plain = count(tokenizer), set(tokenizer.state_dict())
    frames, mask = torch.rand(1, 2, 3, 16, 16), torch.ones(1, 2, dtype=torch.bool)
    tokenizer.train()
    generator = torch.get_rng_state()
    losses = [tokenizer.losses(frames, tokenizer.encode(frames), mask) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), generator)
    assert losses[0].terms["perceptual"].shape == (1, 2)
    assert torch.equal(losses[0].terms["perceptual"], losses[1].terms["perceptual"])
    assert (count(tokenizer), set(tokenizer.state_dict())) == plain


def test_weights_may_come_from_a_torch_state_dict(
    weights: dict[str, Tensor], weights_file: Path, tmp_path: Path
) -> None:
    torch.save(weights, tmp_path / "lpips.pth")
    left, right = (load_perceptual(str(p)) for p in (weights_file, tmp_path / "lpips.pth"))
    for name, value in left.state_dict().items():
        assert torch.equal(value, right.state_dict()[name])


def test_unusable_weight_files_are_an_error(weights: dict[str, Tensor], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.pth.* cannot be read"):
        load_perceptual(str(tmp_path / "nowhere.pth"))
    kept = {name: value for name, value in weights.items() if name != "lin3.model.1.weight"}
    torch.save(kept, tmp_path / "partial.pth")
    with pytest.raises(UserError, match=r"'lin3\.model\.1\.weight' of shape \(1, 512, 1, 1\)"):
        load_perceptual(str(tmp_path / "partial.pth"))
    with pytest.raises(UserError, match="need 3 channels, not 1"):
        AttentiveVQ.Config(perceptual_weights="any").build(frame_shape=FrameShape(16, 16, 1))
