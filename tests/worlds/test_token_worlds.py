"""The token worlds: who learns what, what is seen when, and dreams that outgrow their positions."""

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


def window(seen: Segment, begin: int, end: int) -> Segment:
    return map_tensors(lambda part: part[:, begin:end], seen)


def test_each_part_learns_by_its_own_losses_only(name: str) -> None:
    world, seen = build(name), segment(2, STEPS)
    parts = world.trainables()
    owned = {part: set(parts[part].module.parameters()) for part in parts}
    assert set(world.parameters()) == owned["tokenizer"] | owned["world"]
    assert not owned["tokenizer"] & owned["world"]
    for part, other in (("tokenizer", "world"), ("world", "tokenizer")):
        world.zero_grad()
        sum(next(parts[part].losses(seen)).means().values(), torch.zeros(())).backward()
        assert all(parameter.grad is None for parameter in owned[other])
        moved = [parameter.grad is not None for parameter in owned[part]]
        assert sum(moved) > 0.9 * len(moved)


def changed(seen: Segment, field: str, at: slice) -> Segment:
    value = getattr(seen, field).clone()
    value[:, at] = 255 - value[:, at] if field == "frame" else (value[:, at] + 1) % 3
    return replace(seen, **{field: value})


def first_difference(ours: Tensor, theirs: Tensor) -> int:
    apart = (ours - theirs).abs().amax(0) > 1e-6
    return int(apart.float().argmax()) if apart.any() else -1


@torch.no_grad()
def test_what_is_foreseen_hangs_on_the_past_only() -> None:
    """Of a change at step 3: `tokens` of IRIS at t are of frame t, of Δ-IRIS of t to t + 1."""
    seen = segment(2, STEPS)
    after = slice(3, None)
    for name, frame, action in (("iris", 3, 4), ("delta_iris", 2, 3)):
        world = build(name)
        before = world.losses(seen).terms
        frames = world.losses(changed(seen, "frame", after)).terms
        actions = world.losses(changed(seen, "action", after)).terms
        assert first_difference(before["tokens"], frames["tokens"]) == frame
        assert first_difference(before["tokens"], actions["tokens"]) == action
        assert first_difference(before["termination"], frames["termination"]) == 3
        assert first_difference(before["termination"], actions["termination"]) == 3


@torch.no_grad()
def test_an_episode_knows_nothing_of_the_one_before(name: str) -> None:
    world, seen = build(name), segment(2, STEPS)
    seen.first[:, 3] = True
    ours = world.losses(seen)
    theirs = world.losses(changed(changed(seen, "frame", slice(0, 3)), "action", slice(0, 3)))
    for term in ("tokens", "reward", "termination"):
        torch.testing.assert_close(ours.terms[term][:, 3:], theirs.terms[term][:, 3:])


@torch.no_grad()
def test_what_is_before_a_history_is_not_known(name: str) -> None:
    """Padding on the left, of which nothing says that an episode opens after it."""
    world, seen = build(name), segment(2, STEPS)
    seen.mask[:, :3] = False
    ours, theirs = world.losses(seen), world.losses(changed(seen, "frame", slice(0, 3)))
    for term, mean in ours.means().items():
        torch.testing.assert_close(mean, theirs.means()[term])
    alone = world.start(window(seen, 3, 6), 1)
    padded = world.start(seen, 1)
    torch.testing.assert_close(world.view(padded).feature, world.view(alone).feature)


def test_the_last_step_of_an_episode_has_an_outcome_and_no_change() -> None:
    world, seen = build("delta_iris"), segment(1, STEPS, firsts=(3,))
    seen.mask[0, 5:] = False
    masks = world.losses(seen).masks
    assert masks["tokens"].tolist() == [[True, True, False, True, False]]
    assert masks["reward"].tolist() == masks["termination"].tolist() == [[True] * 5 + [False]]


def test_a_frame_that_opens_a_history_counts_for_the_tokens_that_can_be_foreseen() -> None:
    world, seen = build("iris"), segment(1, STEPS, firsts=(3,))
    seen.mask[0, 5:] = False
    weight = world.losses(seen).masks["tokens"]
    torch.testing.assert_close(weight, torch.tensor([[0.75, 1.0, 1.0, 0.75, 1.0, 0.0]]))


@torch.no_grad()
def test_dreams_that_outgrow_their_positions_go_on_from_the_last_frame(name: str) -> None:
    small = replace(SEQUENCE, positions=27)
    world, seen = build(name, sequence=small, context=0), segment(2, 1)
    carry, forgot = world.start(seen, steps=30), 0
    for t in range(12):
        anew = replace(carry, sequence=world.dynamics.sequence.initial(2))
        if name == "iris":
            anew = replace(anew, pending=carry.index)
        else:
            anew = replace(anew, pending=carry.pending[:, :0])
        expected, _ = world.step(anew, torch.tensor([0, 1]), generator(t))
        full = world.dynamics.sequence.room(carry.sequence) < 8
        carry, dream = world.step(carry, torch.tensor([0, 1]), generator(t))
        assert torch.isfinite(dream.feature).all()
        if full:
            forgot += 1
            assert torch.equal(carry.sequence.length, expected.sequence.length)
            torch.testing.assert_close(dream.feature, world.view(expected).feature)
    assert 2 <= forgot <= 6


def test_segments_that_have_no_positions_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"segment of 13 steps takes \d+ .*positions=60"):
        build(name).losses(segment(1, 13))
    with pytest.raises(UserError, match="context of 40 takes"):
        build(name, context=40)
    with pytest.raises(UserError, match="0 or more"):
        build(name, context=-1)


@torch.no_grad()
def test_acting_looks_at_frames_and_nothing_else() -> None:
    """A behaviour that looks at frames pays neither for the sequence model nor for codes."""
    world, seen = build("delta_iris"), segment(2, 1)
    calls: list[int] = []
    for module in (world.dynamics.sequence.norm, world.tokenizer.encoder, world.dynamics.image):
        module.register_forward_hook(lambda *_: calls.append(1))
    carry = world.observe(
        seen.frame[:, 0], seen.action[:, 0], torch.ones(2, dtype=torch.bool), None
    )
    assert torch.equal(world.view(carry).frame, world.policy_frames(seen)[:, 0])
    assert not calls
    assert world.view(carry).feature.shape == (2, *world.feature_shape)
    assert calls


@torch.no_grad()
def test_a_behaviour_of_iris_sees_reconstructions_awake_and_dreaming() -> None:
    world, seen = build("iris"), segment(2, 1)
    drawn = world.reconstruct(seen).frame
    carry = world.observe(
        seen.frame[:, 0], seen.action[:, 0], torch.ones(2, dtype=torch.bool), None
    )
    for frame in (world.view(carry).frame, world.view(world.start(seen, 1)).frame):
        torch.testing.assert_close(frame, drawn[:, 0])
    torch.testing.assert_close(world.policy_frames(seen), drawn)
    assert not torch.allclose(drawn, seen.frame.movedim(-1, 2) / 255)


@torch.no_grad()
def test_frames_that_follow_none_are_shown_without_codes() -> None:
    world, seen = build("delta_iris"), segment(2, STEPS, firsts=(3,))
    recoded = world.reconstruct(seen)
    bare = (recoded.index == -1).all(-1)
    assert bare.tolist() == [[True, False, False, True, False, False], [True] + [False] * 5]
    real = world.policy_frames(seen)
    assert torch.equal(recoded.frame[bare], real[bare])
    assert not torch.isclose(recoded.frame[~bare], real[~bare]).all()
    assert (recoded.index[~bare] >= 0).all()


@torch.no_grad()
def test_tokens_at_random_ignore_the_model() -> None:
    world, seen = build("delta_iris"), segment(64, 1)
    world.dynamics.next_token.output.bias[5] = 1e4
    action = torch.zeros(64, dtype=torch.long)
    sure, _ = world.step(world.start(seen, 1), action, generator())
    wild, _ = world.step_with_random_tokens(world.start(seen, 1), action, generator())
    assert sure.pending.unique().tolist() == [5]
    assert len(wild.pending.unique()) > 8
    assert not torch.equal(sure.frame, wild.frame)


@torch.no_grad()
def test_expected_or_drawn_rewards() -> None:
    action = torch.zeros(64, dtype=torch.long)
    for draws in (True, False):
        world = build("iris", samples_reward=draws)
        _, dream = world.step(world.start(segment(64, 1), 1), action, generator())
        assert (dream.reward == dream.reward.round()).all().item() is draws
        assert set(dream.terminated.tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("sequence", [Mamba2, Transformer])
@torch.no_grad()
def test_any_sequence_model_serves(name: str, sequence: Any) -> None:
    sizes = {"width": 32, "layers": 1, "heads": 2, "state": 8, "dropout": 0.0}
    known = sequence.Config.__dataclass_fields__
    config = sequence.Config(**{key: value for key, value in sizes.items() if key in known})
    world, seen = build(name, sequence=config, context=2), segment(2, STEPS)
    carry = world.start(window(seen, 3, 6), steps=2)
    _, dream = world.step(carry, seen.action[:, 0], generator())
    assert torch.isfinite(dream.feature).all()
    assert torch.isfinite(world.losses(seen).means()["tokens"])


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
