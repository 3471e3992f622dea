"""What every world promises; members are found, not listed."""

from typing import Any

import pytest
import torch
from torch import Tensor
from world_members import DREAMLESS, SIDE, SPACES, actions, build, names, segment

from tokenworlds.core.errors import NoModel
from tokenworlds.core.protocols import View, World
from tokenworlds.core.trees import map_tensors, named_tensors, restore_tensors
from tokenworlds.core.types import ActionSpace, Dream, Segment

STEPS, DREAM = 5, 3


@pytest.fixture(params=list(SPACES))
def space(request: pytest.FixtureRequest) -> ActionSpace:
    return SPACES[request.param]


@pytest.fixture(params=names())
def world(request: pytest.FixtureRequest, space: ActionSpace) -> Any:
    return build(request.param, space)


@pytest.fixture(params=[name for name in names() if name not in DREAMLESS])
def dreamer(request: pytest.FixtureRequest, space: ActionSpace) -> Any:
    return build(request.param, space)


@pytest.fixture(params=sorted(DREAMLESS))
def dreamless(request: pytest.FixtureRequest, space: ActionSpace) -> Any:
    return build(request.param, space)


def dream(world: Any, carry: Any, space: ActionSpace, seed: int = 0) -> tuple[Any, list[Dream]]:
    generator, dreams = torch.Generator().manual_seed(seed), []
    action = actions(space, 3, DREAM)
    for t in range(DREAM):
        carry, dreamt = world.step(carry, action[:, t], generator)
        dreams.append(dreamt)
    return carry, dreams


def observe_all(world: Any, seen: Segment) -> Any:
    carry = None
    for t in range(STEPS):
        before = seen.action[:, max(t - 1, 0)]
        reset = seen.first[:, t] if t else torch.ones(3, dtype=torch.bool)
        carry = world.observe(seen.frame[:, t], before, reset, carry)
    return carry


def clone(carry: Any) -> Any:
    return map_tensors(lambda leaf: leaf.clone(), carry)


def outcome(dreamt: Dream) -> list[Tensor]:
    return [dreamt.reward, dreamt.terminated, dreamt.feature, dreamt.frame]


def test_members_are_found() -> None:
    assert {"latent", "iris", "delta_iris"} <= set(names())


def test_it_is_a_world(world: Any) -> None:
    assert isinstance(world, World)


def test_a_dream_has_features_frames_and_outcomes(dreamer: Any, space: ActionSpace) -> None:
    start = dreamer.start(segment(space), DREAM)
    _, dreams = dream(dreamer, start, space)
    for seen in (dreamer.view(start), *dreams):
        assert isinstance(seen, View)
        assert seen.feature.shape == (3, *dreamer.feature_shape)
        assert seen.frame.shape == (3, 3, SIDE, SIDE)
        assert seen.frame.min() >= 0
        assert seen.frame.max() <= 1
        assert not seen.feature.requires_grad
    for dreamt in dreams:
        assert dreamt.reward.shape == dreamt.terminated.shape == (3,)
        assert ((dreamt.terminated >= 0) & (dreamt.terminated <= 1)).all()
        assert not dreamt.reward.requires_grad


def test_a_world_without_a_model_says_so_when_asked_to_dream(
    dreamless: Any, space: ActionSpace
) -> None:
    seen = segment(space)
    with pytest.raises(NoModel, match="no model to dream with"):
        dreamless.start(seen, DREAM)
    with pytest.raises(NoModel, match="no model to dream with"):
        dreamless.step(observe_all(dreamless, seen), seen.action[:, -1])


def test_a_dream_is_a_function_of_its_start_its_actions_and_the_generator(
    dreamer: Any, space: ActionSpace
) -> None:
    torch.manual_seed(1)
    _, ours = dream(dreamer, dreamer.start(segment(space), DREAM), space)
    torch.manual_seed(2)
    _, theirs = dream(dreamer, dreamer.start(segment(space), DREAM), space)
    for one, other in zip(ours, theirs, strict=True):
        assert all(torch.equal(*pair) for pair in zip(outcome(one), outcome(other), strict=True))
    _, others = dream(dreamer, dreamer.start(segment(space), DREAM), space, seed=1)
    assert not torch.equal(ours[-1].feature, others[-1].feature)


def test_asking_for_features_and_frames_changes_nothing(dreamer: Any, space: ActionSpace) -> None:
    asked = dreamer.start(segment(space), DREAM)
    dreamer.view(asked).feature.sum()
    generator, action = torch.Generator().manual_seed(0), actions(space, 3, DREAM)
    for t in range(DREAM):
        asked, dreamt = dreamer.step(asked, action[:, t], generator)
        outcome(dreamt)
    left, _ = dream(dreamer, dreamer.start(segment(space), DREAM), space)
    torch.testing.assert_close(dreamer.view(asked).feature, dreamer.view(left).feature)


@pytest.mark.parametrize("made", ["started", "dreamt", "observed"])
def test_a_carry_can_be_saved_and_restored(dreamer: Any, space: ActionSpace, made: str) -> None:
    def make(seed: int) -> Any:
        seen = segment(space, seed=seed)
        if made == "observed":
            return observe_all(dreamer, seen)
        start = dreamer.start(seen, 2 * DREAM)
        return start if made == "started" else dream(dreamer, start, space)[0]

    carry = make(1)
    saved = dict(named_tensors(clone(carry)))
    assert all(len(leaf) == 3 for leaf in saved.values())
    restored = restore_tensors(make(5), saved)
    _, ours = dream(dreamer, carry, space)
    _, theirs = dream(dreamer, restored, space)
    for one, other in zip(ours, theirs, strict=True):
        assert all(torch.equal(*pair) for pair in zip(outcome(one), outcome(other), strict=True))


def test_acting_and_dreaming_start_from_the_same_state(dreamer: Any, space: ActionSpace) -> None:
    seen = segment(space)
    observed, started = observe_all(dreamer, seen), dreamer.start(seen, DREAM)
    for ours, theirs in (
        (dreamer.view(observed).feature, dreamer.view(started).feature),
        (dreamer.view(observed).frame, dreamer.view(started).frame),
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_behaviours_are_shown_the_same_frames_from_segments(world: Any, space: ActionSpace) -> None:
    seen = segment(space)
    shown = world.policy_frames(seen)
    assert shown.shape == (3, STEPS, 3, SIDE, SIDE)
    acting = world.view(observe_all(world, seen)).frame
    torch.testing.assert_close(shown[:, -1], acting, atol=1e-4, rtol=1e-4)


def test_codes_are_shown_with_what_they_stand_for(world: Any, space: ActionSpace) -> None:
    recoded = world.reconstruct(segment(space))
    if recoded is None:
        return
    assert recoded.frame.shape == (3, STEPS, 3, SIDE, SIDE)
    assert recoded.index.shape[:2] == (3, STEPS)
    assert recoded.index.max() < recoded.vocabulary
    if recoded.grid:
        assert recoded.grid[0] * recoded.grid[1] == recoded.index.shape[-1]


def test_losses_are_unreduced_and_change_nothing(world: Any, space: ActionSpace) -> None:
    before = {name: value.clone() for name, value in lasting(world).items()}
    for part in world.trainables().values():
        part.module.train()
        for losses in part.losses(segment(space)):
            for term, value in losses.terms.items():
                assert value.shape == losses.masks[term].shape
                assert torch.isfinite(value).all()
            assert all(not metric.requires_grad for metric in losses.metrics.values())
        part.module.eval()
    assert all(torch.equal(before[name], value) for name, value in lasting(world).items())


def lasting(world: Any) -> dict[str, Tensor]:
    """All but the statistics of batch norms, which are kept as batches pass."""
    passing = ("running_mean", "running_var", "num_batches_tracked")
    return {name: value for name, value in world.state_dict().items() if not name.endswith(passing)}


def test_parts_cover_the_parameters_once(world: Any) -> None:
    parts = [
        parameter for part in world.trainables().values() for parameter in part.module.parameters()
    ]
    assert len(parts) == len(set(parts))
    assert set(parts) == set(world.parameters())


def test_a_dream_may_go_on_for_longer_than_announced(dreamer: Any, space: ActionSpace) -> None:
    carry = dreamer.start(segment(space), 1)
    for _ in range(6):
        carry, dreams = dream(dreamer, carry, space)
    assert all(torch.isfinite(leaf).all() for leaf in outcome(dreams[-1]))


def test_what_is_padding_has_no_bearing(world: Any, space: ActionSpace) -> None:
    """Neither before an episode nor after one."""
    seen, other = segment(space), segment(space, seed=7)
    for part in (seen, other):
        part.mask[1, :2], part.first[1, 2] = False, True
        part.mask[2, 3:] = False
    real = seen.mask
    frame = torch.where(real[..., None, None, None], seen.frame, other.frame)
    changed = Segment(
        frame, seen.first, seen.action, seen.reward, seen.terminated, seen.truncated, seen.mask
    )
    for part in world.trainables().values():
        ours, theirs = (next(part.losses(steps)).means() for steps in (seen, changed))
        for term, mean in ours.items():
            torch.testing.assert_close(mean, theirs[term], atol=1e-5, rtol=1e-5)
