"""The contract of every world; members are found, not listed."""

from typing import Any

import pytest
import torch
from torch import Tensor
from world_members import DREAMLESS, SIDE, SPACES, actions, build, names, segment

from tokenworlds.core.errors import NoModel
from tokenworlds.core.protocols import World
from tokenworlds.core.trees import map_tensors, named_tensors, restore_tensors
from tokenworlds.core.types import ActionSpace, Outcome, Segment, View

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


def dream(
    world: Any, carry: Any, space: ActionSpace, seed: int = 0
) -> tuple[Any, list[tuple[Outcome, View]]]:
    generator, imagined = torch.Generator().manual_seed(seed), []
    action = actions(space, 3, DREAM)
    for t in range(DREAM):
        carry, outcome = world.step(carry, action[:, t], generator)
        imagined.append((outcome, world.view(carry)))
    return carry, imagined


def observe_all(world: Any, real: Segment) -> Any:
    carry = None
    for t in range(STEPS):
        before = real.action[:, max(t - 1, 0)]
        reset = real.first[:, t] if t else torch.ones(3, dtype=torch.bool)
        carry = world.observe(real.frame[:, t], before, reset, carry)
    return carry


def clone(carry: Any) -> Any:
    return map_tensors(lambda leaf: leaf.clone(), carry)


def tensors_of(outcome: Outcome, view: View) -> list[Tensor]:
    return [outcome.reward, outcome.terminated, view.feature, view.frame]


def assert_same_dream(ours: list[tuple[Outcome, View]], theirs: list[tuple[Outcome, View]]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        pairs = zip(tensors_of(*one), tensors_of(*other), strict=True)
        assert all(torch.equal(*pair) for pair in pairs)


def test_members_are_found() -> None:
    assert {"latent", "iris", "delta_iris"} <= set(names())


def test_it_is_a_world(world: Any) -> None:
    assert isinstance(world, World)


def test_a_dream_has_features_frames_and_outcomes(dreamer: Any, space: ActionSpace) -> None:
    start = dreamer.start(segment(space), DREAM)
    _, imagined = dream(dreamer, start, space)
    for view in (dreamer.view(start), *(after for _, after in imagined)):
        assert isinstance(view, View)
        assert view.feature.shape == (3, *dreamer.feature_shape)
        assert view.frame.shape == (3, 3, SIDE, SIDE)
        assert view.frame.min() >= 0
        assert view.frame.max() <= 1
        assert not view.feature.requires_grad
    for outcome, _ in imagined:
        assert outcome.reward.shape == outcome.terminated.shape == (3,)
        assert ((outcome.terminated >= 0) & (outcome.terminated <= 1)).all()
        assert not outcome.reward.requires_grad


def test_a_world_without_a_model_rejects_dreams(dreamless: Any, space: ActionSpace) -> None:
    real = segment(space)
    with pytest.raises(NoModel, match="no model to dream with"):
        dreamless.start(real, DREAM)
    with pytest.raises(NoModel, match="no model to dream with"):
        dreamless.step(observe_all(dreamless, real), real.action[:, -1])


def test_a_dream_depends_only_on_its_start_its_actions_and_the_generator(
    dreamer: Any, space: ActionSpace
) -> None:
    torch.manual_seed(1)
    _, ours = dream(dreamer, dreamer.start(segment(space), DREAM), space)
    torch.manual_seed(2)
    _, theirs = dream(dreamer, dreamer.start(segment(space), DREAM), space)
    assert_same_dream(ours, theirs)
    _, others = dream(dreamer, dreamer.start(segment(space), DREAM), space, seed=1)
    assert not torch.equal(ours[-1][1].feature, others[-1][1].feature)


def test_reading_features_and_frames_changes_nothing(dreamer: Any, space: ActionSpace) -> None:
    carry = dreamer.start(segment(space), DREAM)
    dreamer.view(carry).feature.sum()
    generator, action = torch.Generator().manual_seed(0), actions(space, 3, DREAM)
    for t in range(DREAM):
        carry, outcome = dreamer.step(carry, action[:, t], generator)
        tensors_of(outcome, dreamer.view(carry))
    unread, _ = dream(dreamer, dreamer.start(segment(space), DREAM), space)
    torch.testing.assert_close(dreamer.view(carry).feature, dreamer.view(unread).feature)


@pytest.mark.parametrize("made", ["started", "imagined", "observed"])
def test_a_carry_can_be_saved_and_restored(dreamer: Any, space: ActionSpace, made: str) -> None:
    def make(seed: int) -> Any:
        real = segment(space, seed=seed)
        if made == "observed":
            return observe_all(dreamer, real)
        start = dreamer.start(real, 2 * DREAM)
        return start if made == "started" else dream(dreamer, start, space)[0]

    carry = make(1)
    saved = dict(named_tensors(clone(carry)))
    assert all(len(leaf) == 3 for leaf in saved.values())
    restored = restore_tensors(make(5), saved)
    _, ours = dream(dreamer, carry, space)
    _, theirs = dream(dreamer, restored, space)
    assert_same_dream(ours, theirs)


def test_acting_and_dreaming_start_from_the_same_state(dreamer: Any, space: ActionSpace) -> None:
    real = segment(space)
    observed, started = observe_all(dreamer, real), dreamer.start(real, DREAM)
    for ours, theirs in (
        (dreamer.view(observed).feature, dreamer.view(started).feature),
        (dreamer.view(observed).frame, dreamer.view(started).frame),
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_policy_frames_of_a_segment_are_those_seen_while_acting(
    world: Any, space: ActionSpace
) -> None:
    real = segment(space)
    shown = world.policy_frames(real)
    assert shown.shape == (3, STEPS, 3, SIDE, SIDE)
    acting = world.view(observe_all(world, real)).frame
    torch.testing.assert_close(shown[:, -1], acting, atol=1e-4, rtol=1e-4)


def test_a_reconstruction_has_tokens_and_frames(world: Any, space: ActionSpace) -> None:
    shown = world.reconstruct(segment(space))
    if shown is None:
        return
    assert shown.frame.shape == (3, STEPS, 3, SIDE, SIDE)
    assert shown.index.shape[:2] == (3, STEPS)
    assert shown.index.max() < shown.vocabulary
    if shown.grid:
        assert shown.grid[0] * shown.grid[1] == shown.index.shape[-1]


def test_losses_are_unreduced_and_change_nothing(world: Any, space: ActionSpace) -> None:
    before = {name: value.clone() for name, value in lasting(world).items()}
    for trainable in world.trainables().values():
        trainable.module.train()
        losses = trainable.losses(segment(space))
        for term, value in losses.terms.items():
            assert value.shape == losses.masks[term].shape
            assert torch.isfinite(value).all()
        assert all(not metric.requires_grad for metric in losses.metrics.values())
        trainable.module.eval()
    assert all(torch.equal(before[name], value) for name, value in lasting(world).items())


def lasting(world: Any) -> dict[str, Tensor]:
    """All but the running statistics of batch norms."""
    passing = ("running_mean", "running_var", "num_batches_tracked")
    return {name: value for name, value in world.state_dict().items() if not name.endswith(passing)}


def test_trainables_cover_the_parameters_once(world: Any) -> None:
    modules = [trainable.module for trainable in world.trainables().values()]
    trained = [parameter for module in modules for parameter in module.parameters()]
    assert len(trained) == len(set(trained))
    assert set(trained) == set(world.parameters())


def test_a_dream_may_be_longer_than_announced(dreamer: Any, space: ActionSpace) -> None:
    carry = dreamer.start(segment(space), 1)
    for _ in range(6):
        carry, imagined = dream(dreamer, carry, space)
    assert all(torch.isfinite(leaf).all() for leaf in tensors_of(*imagined[-1]))


def test_padding_has_no_effect(world: Any, space: ActionSpace) -> None:
    """Before an episode and after one."""
    real, other = segment(space), segment(space, seed=7)
    for each in (real, other):
        each.mask[1, :2], each.first[1, 2] = False, True
        each.mask[2, 3:] = False
    frame = torch.where(real.mask[..., None, None, None], real.frame, other.frame)
    changed = Segment(
        frame, real.first, real.action, real.reward, real.terminated, real.truncated, real.mask
    )
    for trainable in world.trainables().values():
        ours, theirs = (trainable.losses(steps).means() for steps in (real, changed))
        for term, mean in ours.items():
            torch.testing.assert_close(mean, theirs[term], atol=1e-5, rtol=1e-5)
