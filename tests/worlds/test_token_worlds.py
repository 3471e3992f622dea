"""The token worlds: gradients, causality, and dreams that run out of positions."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from token_world_parts import SEQUENCE, SIDE, build, delta_config, iris_config, segment
from torch import Tensor

from tokenworlds.behaviours.latent_actor_critic import LatentActorCritic
from tokenworlds.core.errors import UserError
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import ActionSpace, FrameShape, Segment
from tokenworlds.sequence.mamba2 import Mamba2
from tokenworlds.sequence.transformer import Transformer

NAMES = ["iris", "delta_iris"]
STEPS = 6


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def window(real: Segment, begin: int, end: int) -> Segment:
    return map_tensors(lambda part: part[:, begin:end], real)


def test_each_trainable_learns_from_its_own_losses_only(name: str) -> None:
    world, real = build(name), segment(2, STEPS)
    trainables = world.trainables()
    owned = {name: set(each.module.parameters()) for name, each in trainables.items()}
    assert set(world.parameters()) == owned["tokenizer"] | owned["world"]
    assert not owned["tokenizer"] & owned["world"]
    for ours, other in (("tokenizer", "world"), ("world", "tokenizer")):
        world.zero_grad()
        sum(trainables[ours].losses(real).means().values(), torch.zeros(())).backward()
        assert all(parameter.grad is None for parameter in owned[other])
        reached = [parameter.grad is not None for parameter in owned[ours]]
        assert sum(reached) > 0.9 * len(reached)


def changed(real: Segment, field: str, at: slice) -> Segment:
    value = getattr(real, field).clone()
    value[:, at] = 255 - value[:, at] if field == "frame" else (value[:, at] + 1) % 3
    return replace(real, **{field: value})


def first_difference(ours: Tensor, theirs: Tensor) -> int:
    apart = (ours - theirs).abs().amax(0) > 1e-6
    return int(apart.float().argmax()) if apart.any() else -1


@torch.no_grad()
def test_predictions_depend_on_the_past_only() -> None:
    """Inputs change at step 3. `tokens` at t are of frame t in IRIS, of t to t + 1 in Δ-IRIS."""
    real = segment(2, STEPS)
    after = slice(3, None)
    for name, frame, action in (("iris", 3, 4), ("delta_iris", 2, 3)):
        world = build(name)
        before = world.losses(real).terms
        frames = world.losses(changed(real, "frame", after)).terms
        actions = world.losses(changed(real, "action", after)).terms
        assert first_difference(before["tokens"], frames["tokens"]) == frame
        assert first_difference(before["tokens"], actions["tokens"]) == action
        assert first_difference(before["termination"], frames["termination"]) == 3
        assert first_difference(before["termination"], actions["termination"]) == 3


@torch.no_grad()
def test_an_episode_is_independent_of_the_one_before(name: str) -> None:
    world, real = build(name), segment(2, STEPS)
    real.first[:, 3] = True
    ours = world.losses(real)
    theirs = world.losses(changed(changed(real, "frame", slice(0, 3)), "action", slice(0, 3)))
    for term in ("tokens", "reward", "termination"):
        torch.testing.assert_close(ours.terms[term][:, 3:], theirs.terms[term][:, 3:])


@torch.no_grad()
def test_padding_before_a_segment_is_ignored(name: str) -> None:
    """No episode starts after the padding."""
    world, real = build(name), segment(2, STEPS)
    real.mask[:, :3] = False
    ours, theirs = world.losses(real), world.losses(changed(real, "frame", slice(0, 3)))
    for term, mean in ours.means().items():
        torch.testing.assert_close(mean, theirs.means()[term])
    alone = world.start(window(real, 3, 6), 1)
    padded = world.start(real, 1)
    torch.testing.assert_close(world.view(padded).feature, world.view(alone).feature)


def test_the_last_step_of_an_episode_has_an_outcome_and_no_change() -> None:
    world, real = build("delta_iris"), segment(1, STEPS, firsts=(3,))
    real.mask[0, 5:] = False
    masks = world.losses(real).masks
    assert masks["tokens"].tolist() == [[True, True, False, True, False]]
    assert masks["reward"].tolist() == masks["termination"].tolist() == [[True] * 5 + [False]]


def test_the_first_frame_of_a_history_counts_for_its_predictable_tokens() -> None:
    world, real = build("iris"), segment(1, STEPS, firsts=(3,))
    real.mask[0, 5:] = False
    weight = world.losses(real).masks["tokens"]
    torch.testing.assert_close(weight, torch.tensor([[0.75, 1.0, 1.0, 0.75, 1.0, 0.0]]))


@torch.no_grad()
def test_dreams_without_free_positions_continue_from_the_last_frame(name: str) -> None:
    small = replace(SEQUENCE, positions=27)
    world, real = build(name, sequence=small, context=0), segment(2, 1)
    carry, cleared = world.start(real, steps=30), 0
    for t in range(12):
        fresh = replace(carry, sequence=world.dynamics.sequence.initial(2))
        if name == "iris":
            fresh = replace(fresh, pending=carry.index)
        else:
            fresh = replace(fresh, pending=carry.pending[:, :0])
        expected, _ = world.step(fresh, torch.tensor([0, 1]), generator(t))
        full = world.dynamics.sequence.room(carry.sequence) < 8
        carry, _ = world.step(carry, torch.tensor([0, 1]), generator(t))
        feature = world.view(carry).feature
        assert torch.isfinite(feature).all()
        if full:
            cleared += 1
            assert torch.equal(carry.sequence.length, expected.sequence.length)
            torch.testing.assert_close(feature, world.view(expected).feature)
    assert 2 <= cleared <= 6


def test_segments_longer_than_the_positions_are_rejected(name: str) -> None:
    with pytest.raises(UserError, match=r"segment of 13 steps takes \d+ .*positions=60"):
        build(name).losses(segment(1, 13))
    with pytest.raises(UserError, match="context of 40 takes"):
        build(name, context=40)
    with pytest.raises(UserError, match="0 or more"):
        build(name, context=-1)


@torch.no_grad()
def test_a_policy_on_frames_needs_no_network_of_the_world() -> None:
    world, real = build("delta_iris"), segment(2, 1)
    calls: list[int] = []
    for module in (world.dynamics.sequence.norm, world.tokenizer.encoder, world.dynamics.image):
        module.register_forward_hook(lambda *_: calls.append(1))
    carry = world.observe(
        real.frame[:, 0], real.action[:, 0], torch.ones(2, dtype=torch.bool), None
    )
    assert torch.equal(world.view(carry).frame, world.policy_frames(real)[:, 0])
    assert not calls
    assert world.view(carry).feature.shape == (2, *world.feature_shape)
    assert calls


@torch.no_grad()
def test_a_policy_in_iris_sees_reconstructions_when_acting_and_dreaming() -> None:
    world, real = build("iris"), segment(2, 1)
    decoded = world.reconstruct(real).frame
    carry = world.observe(
        real.frame[:, 0], real.action[:, 0], torch.ones(2, dtype=torch.bool), None
    )
    for frame in (world.view(carry).frame, world.view(world.start(real, 1)).frame):
        torch.testing.assert_close(frame, decoded[:, 0])
    torch.testing.assert_close(world.policy_frames(real), decoded)
    assert not torch.allclose(decoded, real.frame.movedim(-1, 2) / 255)


@torch.no_grad()
def test_frames_that_follow_none_have_no_tokens() -> None:
    world, real = build("delta_iris"), segment(2, STEPS, firsts=(3,))
    shown = world.reconstruct(real)
    bare = (shown.index == -1).all(-1)
    assert bare.tolist() == [[True, False, False, True, False, False], [True] + [False] * 5]
    frames = world.policy_frames(real)
    assert torch.equal(shown.frame[bare], frames[bare])
    assert not torch.isclose(shown.frame[~bare], frames[~bare]).all()
    assert (shown.index[~bare] >= 0).all()


@torch.no_grad()
def test_random_tokens_ignore_the_model() -> None:
    world, real = build("delta_iris"), segment(64, 1)
    world.dynamics.next_token.output.bias[5] = 1e4
    action = torch.zeros(64, dtype=torch.long)
    sure, _ = world.step(world.start(real, 1), action, generator())
    wild, _ = world.step_with_random_tokens(world.start(real, 1), action, generator())
    assert sure.pending.unique().tolist() == [5]
    assert len(wild.pending.unique()) > 8
    assert not torch.equal(sure.frame, wild.frame)


@torch.no_grad()
def test_rewards_are_means_or_samples() -> None:
    action = torch.zeros(64, dtype=torch.long)
    for samples in (True, False):
        world = build("iris", samples_reward=samples)
        _, outcome = world.step(world.start(segment(64, 1), 1), action, generator())
        assert (outcome.reward == outcome.reward.round()).all().item() is samples
        assert set(outcome.terminated.tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("sequence", [Mamba2, Transformer])
@torch.no_grad()
def test_any_sequence_model_fits(name: str, sequence: Any) -> None:
    sizes = {"width": 32, "layers": 1, "heads": 2, "state": 8, "dropout": 0.0}
    known = sequence.Config.__dataclass_fields__
    config = sequence.Config(**{key: value for key, value in sizes.items() if key in known})
    world, real = build(name, sequence=config, context=2), segment(2, STEPS)
    carry = world.start(window(real, 3, 6), steps=2)
    carry, _ = world.step(carry, real.action[:, 0], generator())
    assert torch.isfinite(world.view(carry).feature).all()
    assert torch.isfinite(world.losses(real).means()["tokens"])


def test_a_latent_behaviour_learns_in_a_token_world(name: str) -> None:
    world = build(name)
    behaviour = LatentActorCritic.Config(horizon=3, actor=(8,), critic=(8,)).build(
        feature_shape=world.feature_shape,
        frame_shape=FrameShape(SIDE, SIDE),
        action_space=ActionSpace(3),
    )
    losses = behaviour.losses(world, segment(2, 4), generator())
    sum(losses.means().values(), torch.zeros(())).backward()
    assert all(parameter.grad is None for parameter in world.parameters())


def test_an_image_token_must_be_as_wide_as_the_sequence_model() -> None:
    image = replace(delta_config().image, latent=3)
    with pytest.raises(UserError, match="width 32"):
        build("delta_iris", image=image)
    assert iris_config().context == 0
