"""The world without a model: its features while acting are those of a segment."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tokenworlds.core.errors import UserError
from tokenworlds.core.trees import named_tensors, restore_tensors
from tokenworlds.core.types import ActionSpace, FrameShape, Segment
from tokenworlds.worlds.history import History
from tokenworlds.worlds.real import Real


def build(frames: int = 3) -> Real:
    dimensions = {"frame_shape": FrameShape(4, 5, 2), "action_space": ActionSpace(2)}
    return Real.Config(frames=frames).build(**dimensions)


def segment(steps: int = 6) -> Segment:
    """Noise; episodes start at the first step, and at the third step of the second row."""
    frame = torch.randint(0, 256, (2, steps, 4, 5, 2), generator=torch.Generator().manual_seed(0))
    no = torch.zeros(2, steps, dtype=torch.bool)
    first = no.clone()
    first[:, 0] = first[1, 2] = True
    flags = {"first": first, "terminated": no, "truncated": no, "mask": ~no}
    return Segment(frame=frame.to(torch.uint8), action=no.long(), reward=no.float(), **flags)


def observe(world: Real, real: Segment, steps: int, carry: History | None = None) -> History:
    for t in range(steps):
        action, reset = real.action[:, t], real.first[:, t]
        carry = world.observe(real.frame[:, t], action, reset, carry)
    assert carry is not None
    return carry


def test_features_while_acting_are_those_of_a_segment() -> None:
    world, real = build(), segment()
    features, complete = world.features(real)
    assert world.feature_shape == (6, 4, 5)
    assert complete.all()
    for step in range(6):
        view = world.view(observe(world, real, step + 1))
        assert view.feature.shape == (2, *world.feature_shape)
        torch.testing.assert_close(view.feature, features[:, step])
        torch.testing.assert_close(view.frame, world.policy_frames(real)[:, step])


def test_a_carry_can_be_saved_and_restored() -> None:
    world, real = build(), segment()
    carry = observe(world, real, 4)
    saved = {name: leaf.clone() for name, leaf in named_tensors(carry)}
    other = observe(world, replace(real, frame=255 - real.frame), 4)
    restored = restore_tensors(other, saved)
    assert torch.equal(world.view(restored).feature, world.view(carry).feature)


def test_nothing_learns_and_there_are_no_tokens() -> None:
    world: Any = build()
    assert world.trainables() == {}
    assert list(world.parameters()) == []
    assert world.reconstruct(segment()) is None


def test_an_observation_has_at_least_one_frame() -> None:
    with pytest.raises(UserError, match="frames takes 1 or more, not 0"):
        build(0)
