"""The latent world: one history however it is read, and nothing looked at too early."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tokenworlds.core.config import variant
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import ActionSpace, FrameShape, Segment, to_frames
from tokenworlds.recipes.catalogue import load
from tokenworlds.worlds.latent import Latent

STEPS = 7
RECIPES = ["step-vq-m", "step-vq-t", "cb-m", "cb-t"]


def build(name: str = "step-vq-m", space: ActionSpace | None = None, **changes: Any) -> Latent:
    torch.manual_seed(0)
    config = {f"world.{key}": value for key, value in changes.items()}
    recipe = variant(load(name, "nano").recipe, config)
    facts = {"frame_shape": FrameShape(32, 32), "action_space": space or ActionSpace(3)}
    world = recipe.world.build(**facts)
    assert isinstance(world, Latent)
    place_codes(world)
    return world.eval()


def place_codes(world: Latent) -> None:
    """Spread the codebook over noise, so that different frames have different codes."""
    noise = to_frames(segment(batch=8).frame)
    for follow in world.tokenizer.losses(
        noise, world.tokenizer.encode(noise), torch.ones(8, STEPS, dtype=torch.bool)
    ).after:
        follow()


def segment(batch: int = 3, steps: int = STEPS, firsts: tuple[int, ...] = (3,)) -> Segment:
    generator = torch.Generator().manual_seed(1)
    first = torch.zeros(batch, steps, dtype=torch.bool)
    for place in firsts:
        first[0, place] = True
    flags = torch.zeros(batch, steps, dtype=torch.bool)
    frame = torch.randint(0, 256, (batch, steps, 32, 32, 3), generator=generator)
    return Segment(
        frame=frame.to(torch.uint8),
        first=first,
        action=torch.randint(0, 3, (batch, steps), generator=generator),
        reward=torch.randn(batch, steps, generator=generator),
        terminated=flags,
        truncated=flags,
        mask=~flags,
    )


def observe_all(world: Latent, seen: Segment) -> list[Tensor]:
    """The feature at each step, as an agent gets it that meets the frames one by one."""
    carry, features = None, []
    for t in range(seen.first.shape[1]):
        before = seen.action[:, t - 1] if t else torch.zeros_like(seen.action[:, 0])
        reset = seen.first[:, t] if t else torch.ones_like(seen.first[:, 0])
        carry = world.observe(seen.frame[:, t], before, reset, carry)
        features.append(world.view(carry).feature)
    return features


def window(seen: Segment, end: int) -> Segment:
    return map_tensors(lambda leaf: leaf[:, :end], seen)


@pytest.mark.parametrize("memory", [0, STEPS])
@pytest.mark.parametrize("name", RECIPES)
def test_acting_and_dreaming_start_from_the_same_state(name: str, memory: int) -> None:
    world, seen = build(name, memory=memory), segment()
    features = observe_all(world, seen)
    for end in range(1, STEPS + 1):
        started = world.view(world.start(window(seen, end), steps=4)).feature
        torch.testing.assert_close(started, features[end - 1], atol=1e-4, rtol=1e-4)


def test_a_short_memory_forgets_what_is_older() -> None:
    world, seen = build(memory=2), segment(firsts=())
    other = replace(seen, frame=seen.frame.clone())
    other.frame[:, :2] = 255 - other.frame[:, :2]
    ours, theirs = observe_all(world, seen), observe_all(world, other)
    assert not torch.allclose(ours[3], theirs[3])
    torch.testing.assert_close(ours[4], theirs[4])


def test_an_episode_begins_without_a_past() -> None:
    world, seen = build(), segment(firsts=(3,))
    other = replace(seen, frame=seen.frame.clone(), action=seen.action.clone())
    other.frame[:, :3] = 255 - other.frame[:, :3]
    other.action[:, :3] = 2 - other.action[:, :3]
    ours, theirs = observe_all(world, seen), observe_all(world, other)
    torch.testing.assert_close(ours[5][0], theirs[5][0])
    assert not torch.allclose(ours[5][1], theirs[5][1])


def test_dream_goes_on_as_acting_would() -> None:
    """Stepping a state with an action gives the history that observing after it gives."""
    world, seen = build(), segment()
    started = world.start(window(seen, 5), steps=1)
    dreamt, _ = world.step(started, seen.action[:, 4], torch.Generator().manual_seed(0))
    real = world.start(window(seen, 6), steps=1)
    torch.testing.assert_close(dreamt.history, real.history, atol=1e-4, rtol=1e-4)


def test_nothing_is_predicted_across_an_episodes_boundary() -> None:
    world, seen = build(), segment(firsts=(3,))
    losses = world.losses(seen)
    mask = losses.masks["dynamics"]
    assert mask.shape == (3, STEPS - 1)
    assert not mask[0, 2]
    assert mask.sum() == mask.numel() - 1


def test_outcomes_and_prediction_do_not_look_ahead() -> None:
    """Up to step t they hang on frames up to t only; the prediction made at t is of t + 1."""
    world, seen = build(), segment(firsts=())
    other = replace(seen, frame=seen.frame.clone())
    other.frame[:, 4:] = 255 - other.frame[:, 4:]
    ours, theirs = world.losses(seen).terms, world.losses(other).terms
    torch.testing.assert_close(ours["termination"][:, :4], theirs["termination"][:, :4])
    torch.testing.assert_close(ours["dynamics"][:, :3], theirs["dynamics"][:, :3])
    assert not torch.allclose(ours["dynamics"][:, 3], theirs["dynamics"][:, 3])
    assert not torch.allclose(ours["termination"][:, 4], theirs["termination"][:, 4])


def test_the_action_of_a_step_bears_on_its_reward() -> None:
    world, seen = build(), segment(firsts=())
    other = replace(seen, action=seen.action.clone())
    other.action[:, 4] = (other.action[:, 4] + 1) % 3
    ours, theirs = world.losses(seen).terms, world.losses(other).terms
    # The reward head begins at zero everywhere; the ending head does not.
    torch.testing.assert_close(ours["termination"][:, :4], theirs["termination"][:, :4])
    assert not torch.allclose(ours["termination"][:, 4], theirs["termination"][:, 4])


def test_looking_codes_up_equals_multiplying_one_hots() -> None:
    world = build()
    index = torch.randint(0, 16, (2, 5, 16))
    action = torch.randn(2, 5, 3)
    hard = torch.nn.functional.one_hot(index, 16).float()
    looked_up = world.mixer.look_up(index, action)
    torch.testing.assert_close(looked_up, world.mixer(hard, action), atol=1e-5, rtol=1e-5)


def test_dreams_are_decoded_only_on_request() -> None:
    world, seen = build(), segment()
    calls: list[int] = []
    tokenizer: Any = world.tokenizer
    tokenizer.decoder.register_forward_hook(lambda *_: calls.append(1))
    carry = world.start(window(seen, 4), steps=2)
    carry, dream = world.step(carry, seen.action[:, 4])
    assert not calls
    assert dream.frame.shape == (3, 3, 32, 32)
    assert calls


def test_the_habit_of_acting_on_the_prediction_is_a_switch() -> None:
    seen = segment(firsts=())
    sighted, habit = build(), build(acts_on="prediction")
    ours = observe_all(sighted, seen)
    theirs = observe_all(habit, seen)
    torch.testing.assert_close(ours[0], theirs[0])  # Nothing can be predicted at the start.
    codes = sighted.tokenizer.tokens * sighted.tokenizer.vocabulary
    for mine, other in zip(ours[1:], theirs[1:], strict=True):
        torch.testing.assert_close(mine[:, codes:], other[:, codes:])  # Both have looked back.
        assert not torch.allclose(mine[:, :codes], other[:, :codes])


def test_detach_keeps_the_dynamics_out_of_the_tokenizer() -> None:
    for detach in (False, True):
        world = build(detach=detach)
        world.train()
        tokenizer: Any = world.tokenizer
        loss = world.losses(segment()).means()["termination"]
        loss.backward()
        moved = any(p.grad is not None and p.grad.abs().sum() > 0 for p in tokenizer.parameters())
        assert moved is not detach


def test_continuous_actions() -> None:
    world = build(space=ActionSpace(2, discrete=False))
    seen = segment()
    seen = replace(seen, action=torch.rand(3, STEPS, 2) * 2 - 1)
    assert torch.isfinite(sum(world.losses(seen).means().values(), torch.zeros(())))
    _, dream = world.step(world.start(window(seen, 4), 1), seen.action[:, 4])
    assert dream.feature.shape == (3, *world.feature_shape)
