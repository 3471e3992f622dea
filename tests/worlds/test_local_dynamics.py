"""Local dynamics: alike in every place, alike in learning and in dreams."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from latent_parts import STEPS, build, segment, window
from torch import nn
from torch.nn import functional

from tokenworlds.core.types import ActionSpace
from tokenworlds.nets.local_dynamics import LocalDynamics
from tokenworlds.priors.maskgit import MaskGIT
from tokenworlds.tokenizers.fsq import FSQ
from tokenworlds.tokenizers.lfq import LFQ
from tokenworlds.tokenizers.residual_vq import ResidualVQ
from tokenworlds.worlds.latent import Latent

GRID, VOCABULARY, ACTIONS, WIDTH = (11, 11), 5, 3, 7


def local(**changes: Any) -> LocalDynamics:
    torch.manual_seed(0)
    config = LocalDynamics.Config(channels=8, groups=8, **changes)
    sizes = {"vocabulary": VOCABULARY, "actions": ACTIONS, "width": WIDTH}
    return config.build(grid=GRID, code_width=6, **sizes)


def with_weights(world: Latent) -> Latent:
    """Weights that start at zero would hide what the prior reads."""
    torch.manual_seed(1)
    for part in (world.prior, world.reward):
        assert isinstance(part, nn.Module)
        for weight in part.parameters():
            nn.init.normal_(weight, std=0.3)
    return world


@pytest.mark.parametrize(
    ("embeds", "predicts"), [("index", "index"), ("vector", "index"), ("vector", "vector")]
)
def test_token_look_up_equals_multiplication_of_one_hots(embeds: str, predicts: str) -> None:
    dynamics = local(embeds=embeds, predicts=predicts)
    vectors = torch.randn(VOCABULARY, 6) if embeds == "vector" else None
    index = torch.randint(0, VOCABULARY, (2, 4, 121))
    previous = torch.randint(0, VOCABULARY + 1, (2, 4, 121))
    action = torch.randn(2, 4, ACTIONS)
    history = torch.randn(2, 4, WIDTH)
    now = functional.one_hot(index, VOCABULARY).float()
    before = functional.one_hot(previous, VOCABULARY + 1).float()[..., :VOCABULARY]
    looked_up = dynamics.look_up(index, previous, action, history, vectors)
    multiplied = dynamics(now, before, action, history, vectors)
    torch.testing.assert_close(looked_up, multiplied, atol=1e-5, rtol=1e-5)


def test_what_moves_by_one_cell_is_predicted_one_cell_further() -> None:
    """As long as it stays away from the border: each of two layers reads one cell further."""
    dynamics = local()
    board = torch.zeros(1, *GRID, dtype=torch.long)
    board[0, 5, 4], moved = 3, torch.zeros_like(board)
    moved[0, 5, 5] = 3
    unknown = torch.full((1, 121), dynamics.unknown)
    given = (torch.eye(ACTIONS)[:1], torch.randn(1, WIDTH))
    maps = [
        dynamics.look_up(each.flatten(1), unknown, *given).unflatten(1, GRID)
        for each in (board, moved)
    ]
    torch.testing.assert_close(maps[0][:, 5, 2:7], maps[1][:, 5, 3:8], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(maps[0][:, 5, 2:7], maps[1][:, 5, 2:7])


def test_tokens_embedded_by_vectors_follow_codes_that_change_places() -> None:
    dynamics, vectors = local(embeds="vector"), torch.randn(VOCABULARY, 6)
    order = torch.randperm(VOCABULARY)
    index, previous = torch.randint(0, VOCABULARY, (2, 4, 121))
    given = (torch.randn(4, ACTIONS), torch.randn(4, WIDTH))
    ours = dynamics.look_up(order[index], order[previous], *given, vectors)
    theirs = dynamics.look_up(index, previous, *given, vectors[order])
    torch.testing.assert_close(ours, theirs)


def test_codes_that_are_alike_are_embedded_alike_at_any_scale_of_the_codebook() -> None:
    dynamics, vectors = local(embeds="vector"), torch.randn(VOCABULARY, 6)
    vectors[1] = vectors[0]
    index = torch.randint(2, VOCABULARY, (1, 121))
    other, unknown = index.clone(), torch.full((1, 121), dynamics.unknown)
    index[0, 60], other[0, 60] = 0, 1
    given = (torch.randn(1, ACTIONS), torch.randn(1, WIDTH))
    ours = dynamics.look_up(index, unknown, *given, vectors)
    torch.testing.assert_close(dynamics.look_up(other, unknown, *given, vectors), ours)
    scaled = dynamics.look_up(index, unknown, *given, 100 * vectors + 3)
    torch.testing.assert_close(scaled, ours, atol=1e-4, rtol=1e-4)


def test_before_any_update_the_present_code_is_the_likeliest_and_then_those_near_it() -> None:
    dynamics = local(embeds="vector", predicts="vector")
    assert dynamics.nearness is not None
    vectors = torch.tensor([0.0, 1.0, 3.0, 7.0, 20.0]).unsqueeze(-1).expand(-1, 6)
    index, unknown = torch.full((1, 121), 1), torch.full((1, 121), dynamics.unknown)
    given = (torch.randn(1, ACTIONS), torch.randn(1, WIDTH))
    cells = dynamics.look_up(index, unknown, *given, vectors)
    logits = cells[..., -VOCABULARY:]
    assert torch.equal(logits.argsort(descending=True)[0, 0], torch.tensor([1, 0, 2, 3, 4]))
    torch.testing.assert_close(logits.amax(dim=-1), torch.zeros(1, 121), atol=1e-5, rtol=0)


def test_vectors_are_predicted_where_tokens_have_them() -> None:
    with pytest.raises(ValueError, match="predicts=vector needs embeds=vector"):
        LocalDynamics.Config(predicts="vector")


def test_a_cell_lies_in_the_middle_of_what_the_heads_read() -> None:
    with pytest.raises(ValueError, match="pooled_kernel takes 1, 3, 5 and so on, not 2"):
        LocalDynamics.Config(pooled_kernel=2)


@pytest.mark.parametrize(("kernel", "seen"), [(1, 1), (3, 9), (5, 25)])
def test_heads_read_each_cell_with_its_neighbours(kernel: int, seen: int) -> None:
    dynamics = local(pooled_kernel=kernel)
    cells = torch.zeros(1, 121, 8)
    cells[0, 60] = torch.randn(8)
    with_one, without = dynamics._outcomes(cells), dynamics._outcomes(torch.zeros_like(cells))
    assert int((with_one != without).any(dim=-1).sum()) == seen


BY_VECTOR = LocalDynamics.Config(channels=8, embeds="vector", pooled_kernel=3)
TO_VECTOR = replace(BY_VECTOR, predicts="vector")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("step-vq-m", {}),
        ("step-vq-t", {}),
        ("step-vq-m", {"local": BY_VECTOR}),
        ("step-vq-m", {"local": TO_VECTOR}),
    ],
)
def test_a_dream_predicts_what_the_losses_compare(name: str, changes: dict[str, Any]) -> None:
    world, real = with_weights(build(name, memory=0, **changes)), segment(firsts=(3,))
    losses = world.losses(real)
    for end in range(1, STEPS):
        carry = world.start(window(real, end), steps=2)
        predicted = world.predict(carry, real.action[:, end - 1], window(real, end + 1))
        reward = predicted.reward.loss(real.reward[:, end - 1])
        torch.testing.assert_close(reward, losses.terms["reward"][:, end - 1], atol=1e-4, rtol=1e-4)
        assert predicted.log_probs is not None
        assert predicted.posterior is not None
        gap = predicted.posterior - predicted.log_probs
        divergence = (predicted.posterior.exp() * gap).sum(dim=(-2, -1))
        counts = losses.masks["dynamics"][:, end - 1]
        expected = losses.terms["dynamics"][:, end - 1]
        torch.testing.assert_close(divergence[counts], expected[counts], atol=1e-3, rtol=1e-3)


def test_the_frame_before_an_episode_is_not_read() -> None:
    world, real = with_weights(build()), segment(firsts=(3,))
    other = replace(real, frame=real.frame.clone())
    other.frame[:, 2] = 255 - other.frame[:, 2]
    ours, theirs = (world.losses(each).terms["reward"] for each in (real, other))
    torch.testing.assert_close(ours[0, 3], theirs[0, 3])
    assert not torch.allclose(ours[1, 3], theirs[1, 3])


def test_a_world_without_local_dynamics_reads_history_alone() -> None:
    world = build(local=None)
    assert world.local is None
    carry = world.start(segment(), steps=1)
    carry, _ = world.step(carry, torch.zeros(3, dtype=torch.long))
    assert carry.hidden.shape == (3, world.sequence.width)
    assert carry.previous is None


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("cb-m", {"local": LocalDynamics.Config()}),
        ("step-vq-m", {"prior": MaskGIT.Config(embedding=16, layers=1, heads=2, feedforward=16)}),
    ],
)
def test_tokens_without_a_place_and_priors_without_cells_do_without(
    name: str, changes: dict[str, Any]
) -> None:
    world = build(name, **changes)
    assert world.local is None
    world.losses(segment())


@pytest.mark.parametrize("tokenizer", [FSQ.Config(), LFQ.Config()])
def test_codes_that_are_not_learned_have_vectors_too(tokenizer: Any) -> None:
    world = build(tokenizer=tokenizer, local=BY_VECTOR)
    assert world.local is not None
    assert world.local.by_vector
    world.losses(segment()).means()["dynamics"].backward()
    assert world.local.current.grad is not None


@pytest.mark.parametrize("config", [BY_VECTOR, TO_VECTOR])
def test_tokens_without_a_shared_codebook_are_embedded_by_index(
    config: LocalDynamics.Config,
) -> None:
    world = build(tokenizer=ResidualVQ.Config(), local=config)
    assert world.local is not None
    assert len(world.local.current) == world.tokenizer.vocabulary
    world.losses(segment())


def test_continuous_actions_are_read() -> None:
    world = build(space=ActionSpace(2, discrete=False))
    assert world.local is not None
    index = torch.zeros(1, world.tokenizer.tokens, dtype=torch.long)
    history = torch.zeros(1, world.sequence.width)
    left, right = (
        world.local.look_up(index, index, torch.full((1, 2), x), history) for x in (-1.0, 1.0)
    )
    assert not torch.allclose(left, right)
