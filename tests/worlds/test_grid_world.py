"""The world of maps: what it foresees, what it leaves alone, and how its sites may lie."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, FrameShape, Segment
from tokenworlds.heads.reward import MapSignReward
from tokenworlds.nets.codebooks import AveragedCodebook
from tokenworlds.nets.strided import StridedEncoder
from tokenworlds.priors.factorised import Factorised
from tokenworlds.priors.gaussian import GaussianPrior
from tokenworlds.sequence.convlstm import ConvLSTM
from tokenworlds.tokenizers.bernoulli_vq import BernoulliVQ
from tokenworlds.tokenizers.gaussian import GaussianTokenizer
from tokenworlds.tokenizers.vq import VQ
from tokenworlds.worlds.grid import Grid

SHAPE, SPACE = FrameShape(16, 16, 1), ActionSpace(3)
ENCODER = StridedEncoder.Config(filters=(8, 8), blocks=1)
SMALL = Grid.Config(
    tokenizer=BernoulliVQ.Config(
        encoder=ENCODER, codebook=AveragedCodebook.Config(codes=8, width=4)
    ),
    sequence=ConvLSTM.Config(channels=8, kernel=3),
    prior=Factorised.Config(shared=True, objective="cross-entropy", unimix=0.0),
    reward=MapSignReward.Config(channels=4, hidden=8),
)
CONTINUOUS = {
    "tokenizer": GaussianTokenizer.Config(encoder=ENCODER, width=2),
    "prior": GaussianPrior.Config(),
}


def build(**choices: Any) -> Grid:
    torch.manual_seed(0)
    config = dataclasses.replace(SMALL, **choices)
    return config.build(frame_shape=SHAPE, action_space=SPACE).eval()


def segment(batch: int = 2, steps: int = 9, opening: int | None = 5) -> Segment:
    """Noise; an episode ends, and another opens, before step `opening`."""
    generator = torch.Generator().manual_seed(1)
    no = torch.zeros(batch, steps, dtype=torch.bool)
    first, terminated = no.clone(), no.clone()
    if opening is not None:
        first[:, opening], terminated[:, opening - 1] = True, True
    frame = torch.randint(0, 256, (batch, steps, 16, 16, 1), generator=generator)
    action = torch.randint(0, 3, (batch, steps), generator=generator)
    reward = torch.randint(-1, 2, (batch, steps), generator=generator).float()
    return Segment(frame.to(torch.uint8), first, action, reward, terminated, no, ~no)


@pytest.mark.parametrize(("looks_at", "drawn"), [("feature", 0), ("frame", 51)])
def test_simulating_touches_the_decoder_only_for_a_policy_on_frames(
    looks_at: str, drawn: int
) -> None:
    """16 dreams of 50 steps. In a process of its own: checked types look at all of a view."""
    script = Path(__file__).with_name("simulate_grid.py")
    done = subprocess.run(
        [sys.executable, str(script), looks_at], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(drawn), "16"]


@pytest.mark.parametrize(("crosses", "steps"), [(True, 8), (False, 7)])
def test_what_is_foreseen_from_one_episode_into_the_next(crosses: bool, steps: int) -> None:
    losses = build(crosses_episodes=crosses).losses(segment())
    assert losses.masks["dynamics"].sum(dim=1).tolist() == [steps, steps]
    assert losses.masks["reward"].sum(dim=1).tolist() == [8, 8]


def test_an_episode_knows_nothing_of_the_one_before_unless_it_may() -> None:
    seen = segment()
    other = dataclasses.replace(seen, action=(seen.action + (torch.arange(9) < 4).long()) % 3)
    for crosses in (False, True):
        world = build(crosses_episodes=crosses, given=9)
        ours, theirs = (world.losses(each).terms["dynamics"][:, 5:] for each in (seen, other))
        assert torch.equal(ours, theirs) == (not crosses)


@pytest.mark.parametrize(("given", "draws"), [(1, 7), (4, 4), (8, 0)])
def test_codes_are_given_for_some_steps_and_dreamt_from_then_on(given: int, draws: int) -> None:
    world = build(given=given)
    count: list[Tensor] = []
    plain = world.dynamics.prior.sample

    def counting(feature: Tensor, generator: torch.Generator | None) -> Tensor:
        count.append(feature)
        drawn: Tensor = plain(feature, generator)
        return drawn

    world.dynamics.prior.sample = counting
    world.losses(segment())
    assert len(count) == draws


def test_the_rewards_gradient_stays_in_its_head_unless_it_may_leave() -> None:
    for shapes in (False, True):
        world = build(reward_trains_memory=shapes)
        world.losses(segment()).means()["reward"].backward()
        reached = {name.split(".")[0] for name, p in world.dynamics.named_parameters() if moved(p)}
        assert reached == ({"reward", "sequence"} if shapes else {"reward"})


def moved(parameter: Tensor) -> bool:
    return parameter.grad is not None and bool(parameter.grad.any())


def test_the_dynamics_never_move_the_tokenizer() -> None:
    world = build()
    losses = world.losses(segment())
    sum(losses.means().values()).backward()  # type: ignore[union-attr]
    assert not any(moved(parameter) for parameter in world.tokenizer.parameters())
    assert losses.after == ()


def test_codes_of_the_dynamics_leave_the_norms_alone_unless_they_are_as_released() -> None:
    for released in (False, True):
        world = build(encodes_in_training=released)
        before = {name: value.clone() for name, value in world.tokenizer.state_dict().items()}
        world.trainables()["world"].module.train()
        world.losses(segment())
        same = [torch.equal(before[k], v) for k, v in world.tokenizer.state_dict().items()]
        assert all(same) == (not released)
        assert not world.tokenizer.training


@pytest.mark.parametrize(
    ("layout", "shape"), [("map", (4, 4, 4)), ("line", (4, 16, 1)), ("vector", (64, 1, 1))]
)
def test_sites_may_lie_otherwise(layout: str, shape: tuple[int, ...]) -> None:
    prior = Factorised.Config(shared=layout != "vector", objective="cross-entropy")
    world = build(layout=layout, prior=prior)
    carry, dreamt = world.step(world.start(segment(), 2), torch.tensor([0, 2]))
    assert dreamt.feature.shape == (2, *shape)
    assert dreamt.frame.shape == (2, 1, 16, 16)
    # Wherever sites lie, the frame is drawn from the same vectors.
    assert torch.equal(world.tokenizer.decode_vectors(carry.vector), dreamt.frame)
    assert world.losses(segment()).terms["dynamics"].shape == (2, 8)


@pytest.mark.parametrize("layout", ["map", "vector"])
def test_numbers_instead_of_codes(layout: str) -> None:
    prior = GaussianPrior.Config(shared=layout == "map")
    world = build(**{**CONTINUOUS, "layout": layout, "prior": prior})
    assert world.tokenizer_losses(segment()).terms.keys() == {"reconstruction", "kl"}
    assert world.losses(segment()).terms.keys() == {"dynamics", "reward"}
    start = world.start(segment(), 2)
    assert torch.equal(start.vector, world.start(segment(), 2).vector)
    _, dreamt = world.step(start, torch.tensor([0, 2]), torch.Generator().manual_seed(0))
    assert dreamt.feature.isfinite().all()


def test_looking_leaves_chance_alone() -> None:
    """Else a game that is judged once more after a stop would move what is drawn in learning."""
    world, seen = build(**CONTINUOUS), segment()
    before = torch.get_rng_state()
    carry = world.observe(seen.frame[:, 0], seen.action[:, 0], seen.first[:, 0], None)
    assert world.view(carry).feature.isfinite().all()
    assert world.view(carry).frame.isfinite().all()
    world.start(seen, 2)
    world.reconstruct(seen)
    world.policy_frames(seen)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"tokenizer": VQ.Config(filters=(8,), strides=(2,))}, "VQ knows of no map"),
        ({"prior": GaussianPrior.Config()}, "goes with world.tokenizer=gaussian"),
        ({"tokenizer": CONTINUOUS["tokenizer"]}, "goes with world.tokenizer=gaussian"),
    ],
)
def test_parts_that_do_not_fit_are_told_in_a_sentence(
    choices: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        build(**choices)


def test_segments_that_are_too_short_are_told_in_a_sentence() -> None:
    with pytest.raises(UserError, match=r"too short for world\.frames=4"):
        build(frames=4).tokenizer_losses(segment(steps=3, opening=None))
    with pytest.raises(UserError, match=r"world.frames \+ 1 or more"):
        build().losses(segment(steps=1, opening=None))


def test_numbers_are_shown_as_shades() -> None:
    world = build(**CONTINUOUS)
    shown = world.reconstruct(segment())
    assert shown.shades
    assert shown.grid == (4, 8)
    mean = world.tokenizer.encode(torch.zeros(1, 1, 16, 16)).mean
    assert shown.index.shape == (2, 9, 32) == (2, 9, mean[0].numel())
    assert not build().reconstruct(segment()).shades


def test_four_frames_are_coded_together_and_the_newest_is_shown() -> None:
    world = build(frames=4)
    assert world.tokenizer.encoder.layers[0].convolution.in_channels == 4
    seen = segment()
    _, dreamt = world.step(world.start(seen, 1), torch.tensor([0, 2]))
    assert dreamt.frame.shape == (2, 1, 16, 16)
    # The first three steps of a segment do not know the frames before them.
    assert world.tokenizer_losses(seen).masks["reconstruction"].shape == (2, 6)
    assert world.losses(seen).masks["dynamics"].sum(dim=1).tolist() == [5, 5]
