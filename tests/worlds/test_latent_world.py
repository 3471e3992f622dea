"""The latent world: acting, dreaming and learning agree, and predictions read only the past."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from latent_parts import STEPS, build, observe_all, segment, window
from torch import Tensor

from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import ActionSpace, Segment
from tokenworlds.nets.local_dynamics import LocalDynamics
from tokenworlds.worlds.latent import Latent

BY_VECTOR = LocalDynamics.Config(channels=8, embeds="vector", predicts="vector")
RECIPES = ["step-vq-m", "step-vq-t", "cb-m", "cb-t"]


@pytest.mark.parametrize("memory", [0, STEPS])
@pytest.mark.parametrize("name", RECIPES)
def test_acting_and_dreaming_start_from_the_same_state(name: str, memory: int) -> None:
    world, real = build(name, memory=memory), segment()
    features = observe_all(world, real)
    for end in range(1, STEPS + 1):
        started = world.view(world.start(window(real, end), steps=4)).feature
        torch.testing.assert_close(started, features[end - 1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *((name, {}) for name in RECIPES),
        ("step-vq-m", {"local": BY_VECTOR}),
        ("step-vq-t", {"sequence.window": 4}),
    ],
)
def test_the_states_of_a_segment_are_those_that_dreams_start_from(
    name: str, changes: dict[str, Any]
) -> None:
    world, real = build(name, **changes), segment(firsts=(0, 3))
    every = world.states(real, steps=2)
    action = torch.tensor([1, 2, 0])
    for end in range(1, STEPS + 1):
        one = world.start(window(real, end), steps=2)
        same = map_tensors(lambda leaf, end=end: leaf[end - 1 :: STEPS], every)
        for _ in range(2):
            features = [world.view(each).feature for each in (one, same)]
            torch.testing.assert_close(*features, atol=1e-4, rtol=1e-4)
            one, outcome = world.step(one, action, torch.Generator().manual_seed(end))
            same, other = world.step(same, action, torch.Generator().manual_seed(end))
            torch.testing.assert_close(outcome.reward, other.reward, atol=1e-4, rtol=1e-4)


def test_a_short_memory_forgets_older_steps() -> None:
    world, real = build(memory=2), segment(firsts=())
    other = replace(real, frame=real.frame.clone())
    other.frame[:, :2] = 255 - other.frame[:, :2]
    ours, theirs = observe_all(world, real), observe_all(world, other)
    assert not torch.allclose(ours[3], theirs[3])
    torch.testing.assert_close(ours[4], theirs[4])


def test_an_episode_is_independent_of_the_one_before() -> None:
    world, real = build(), segment(firsts=(3,))
    other = replace(real, frame=real.frame.clone(), action=real.action.clone())
    other.frame[:, :3] = 255 - other.frame[:, :3]
    other.action[:, :3] = 2 - other.action[:, :3]
    ours, theirs = observe_all(world, real), observe_all(world, other)
    torch.testing.assert_close(ours[5][0], theirs[5][0])
    assert not torch.allclose(ours[5][1], theirs[5][1])


def test_an_imagined_step_gives_the_history_of_a_real_one() -> None:
    world, real = build(), segment()
    started = world.start(window(real, 5), steps=1)
    imagined, _ = world.step(started, real.action[:, 4], torch.Generator().manual_seed(0))
    expected = world.start(window(real, 6), steps=1)
    torch.testing.assert_close(imagined.hidden, expected.hidden, atol=1e-4, rtol=1e-4)


def test_nothing_is_predicted_across_episodes() -> None:
    world, real = build(), segment(firsts=(3,))
    losses = world.losses(real)
    mask = losses.masks["dynamics"]
    assert mask.shape == (3, STEPS - 1)
    assert not mask[0, 2]
    assert mask.sum() == mask.numel() - 1


def test_predictions_depend_on_the_past_only() -> None:
    """Those up to step t depend on frames up to t; the tokens predicted at t are those of t + 1."""
    world, real = build(), segment(firsts=())
    other = replace(real, frame=real.frame.clone())
    other.frame[:, 4:] = 255 - other.frame[:, 4:]
    ours, theirs = world.losses(real).terms, world.losses(other).terms
    torch.testing.assert_close(ours["termination"][:, :4], theirs["termination"][:, :4])
    torch.testing.assert_close(ours["dynamics"][:, :3], theirs["dynamics"][:, :3])
    assert not torch.allclose(ours["dynamics"][:, 3], theirs["dynamics"][:, 3])
    assert not torch.allclose(ours["termination"][:, 4], theirs["termination"][:, 4])


def test_the_action_of_a_step_affects_its_outcome() -> None:
    world, real = build(), segment(firsts=())
    other = replace(real, action=real.action.clone())
    other.action[:, 4] = (other.action[:, 4] + 1) % 3
    ours, theirs = world.losses(real).terms, world.losses(other).terms
    # The reward head starts at zero everywhere; the termination head does not.
    torch.testing.assert_close(ours["termination"][:, :4], theirs["termination"][:, :4])
    assert not torch.allclose(ours["termination"][:, 4], theirs["termination"][:, 4])


def test_token_look_up_equals_multiplication_of_one_hots() -> None:
    world = build()
    index = torch.randint(0, 16, (2, 5, 16))
    action = torch.randn(2, 5, 3)
    hard = torch.nn.functional.one_hot(index, 16).float()
    looked_up = world.mixer.look_up(index, action)
    torch.testing.assert_close(looked_up, world.mixer(hard, action), atol=1e-5, rtol=1e-5)


def test_dreams_are_decoded_only_on_request() -> None:
    world, real = build(), segment()
    calls: list[int] = []
    tokenizer: Any = world.tokenizer
    tokenizer.decoder.register_forward_hook(lambda *_: calls.append(1))
    carry = world.start(window(real, 4), steps=2)
    carry, _ = world.step(carry, real.action[:, 4])
    view = world.view(carry)
    assert not calls
    assert view.frame.shape == (3, 3, 32, 32)
    assert calls


def test_acting_on_predicted_tokens_is_an_option() -> None:
    real = segment(firsts=())
    encoding, prediction = build(), build(acts_on="prediction")
    ours = observe_all(encoding, real)
    theirs = observe_all(prediction, real)
    torch.testing.assert_close(ours[0], theirs[0])  # Nothing can be predicted at the start.
    tokens = encoding.tokenizer.tokens * encoding.tokenizer.vocabulary
    for mine, other in zip(ours[1:], theirs[1:], strict=True):
        torch.testing.assert_close(mine[:, tokens:], other[:, tokens:])  # The history is the same.
        assert not torch.allclose(mine[:, :tokens], other[:, :tokens])


def test_detach_stops_the_gradient_before_the_tokenizer() -> None:
    for detach in (False, True):
        world = build(detach=detach)
        world.train()
        tokenizer: Any = world.tokenizer
        loss = world.losses(segment()).means()["termination"]
        loss.backward()
        has_gradient = any(
            p.grad is not None and p.grad.abs().sum() > 0 for p in tokenizer.parameters()
        )
        assert has_gradient is not detach


def test_continuous_actions() -> None:
    world = build(space=ActionSpace(2, discrete=False))
    real = segment()
    real = replace(real, action=torch.rand(3, STEPS, 2) * 2 - 1)
    assert torch.isfinite(sum(world.losses(real).means().values(), torch.zeros(())))
    carry, _ = world.step(world.start(window(real, 4), 1), real.action[:, 4])
    assert world.view(carry).feature.shape == (3, *world.feature_shape)


def world_gradients(world: Latent, real: Segment) -> dict[str, Tensor]:
    world.zero_grad()
    losses = world.losses(real)
    terms = [(term * losses.masks[name]).sum() for name, term in losses.terms.items()]
    torch.stack(terms).sum().backward()
    return {
        name: parameter.grad.clone()
        for name, parameter in world.named_parameters()
        if parameter.grad is not None
    }


def test_only_the_first_tokenizer_rows_train_the_tokenizer() -> None:
    real = segment(batch=4)
    few = world_gradients(build(tokenizer_rows=2), real)
    reconstructed = build(tokenizer_rows=2).losses(real).terms["reconstruction"]
    assert len(reconstructed) == 2
    # Frames of the other rows change no gradient of the decoder.
    other = real.frame.clone()
    other[2:] = 255 - other[2:]
    changed = world_gradients(build(tokenizer_rows=2), replace(real, frame=other))
    decoder = [name for name in few if name.startswith("tokenizer.decoder")]
    assert decoder
    assert all(torch.equal(few[name], changed[name]) for name in decoder)
    # All rows train the sequence model.
    assert any(not torch.equal(few[name], changed[name]) for name in few if "prior" in name)


@pytest.mark.parametrize("rows", [4, 9])
def test_as_many_tokenizer_rows_as_sequences_change_nothing(rows: int) -> None:
    real = segment(batch=4)
    every, named = (world_gradients(build(tokenizer_rows=n), real) for n in (0, rows))
    assert all(torch.equal(every[name], named[name]) for name in every)
