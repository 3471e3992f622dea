"""The grid world: what it predicts, which gradients it stops, and its layouts."""

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
from tokenworlds.heads.outcomes import MapSignReward, MapTermination
from tokenworlds.nets.codebooks import AveragedCodebook
from tokenworlds.nets.strided import StridedEncoder
from tokenworlds.priors.factorised import Factorised
from tokenworlds.priors.gaussian import GaussianPrior
from tokenworlds.sequence.convlstm import ConvLSTM
from tokenworlds.tokenizers.bernoulli_vq import BernoulliVQ
from tokenworlds.tokenizers.categorical import Categorical
from tokenworlds.tokenizers.gaussian import GaussianTokenizer
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
    """Noise; an episode terminates before step `opening`, where another starts."""
    generator = torch.Generator().manual_seed(1)
    no = torch.zeros(batch, steps, dtype=torch.bool)
    first, terminated = no.clone(), no.clone()
    if opening is not None:
        first[:, opening], terminated[:, opening - 1] = True, True
    frame = torch.randint(0, 256, (batch, steps, 16, 16, 1), generator=generator)
    action = torch.randint(0, 3, (batch, steps), generator=generator)
    reward = torch.randint(-1, 2, (batch, steps), generator=generator).float()
    return Segment(frame.to(torch.uint8), first, action, reward, terminated, no, ~no)


@pytest.mark.parametrize(("looks_at", "decoded"), [("feature", 0), ("frame", 51)])
def test_dreams_are_decoded_only_for_a_policy_on_frames(looks_at: str, decoded: int) -> None:
    """In a separate process: the type checks of tests would read frames and features."""
    script = Path(__file__).with_name("simulate_grid.py")
    done = subprocess.run(
        [sys.executable, str(script), looks_at], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(decoded), "16"]


@pytest.mark.parametrize(("crosses", "steps"), [(True, 8), (False, 7)])
def test_the_prediction_across_episodes_is_optional(crosses: bool, steps: int) -> None:
    losses = build(crosses_episodes=crosses).losses(segment())
    assert losses.masks["dynamics"].sum(dim=1).tolist() == [steps, steps]
    assert losses.masks["reward"].sum(dim=1).tolist() == [8, 8]


def test_an_episode_is_independent_of_the_one_before_unless_configured() -> None:
    real = segment()
    other = dataclasses.replace(real, action=(real.action + (torch.arange(9) < 4).long()) % 3)
    for crosses in (False, True):
        world = build(crosses_episodes=crosses, given=9)
        ours, theirs = (world.losses(each).terms["dynamics"][:, 5:] for each in (real, other))
        assert torch.equal(ours, theirs) == (not crosses)


@pytest.mark.parametrize(("given", "samples"), [(1, 7), (4, 4), (8, 0)])
def test_tokens_are_real_for_given_steps_and_sampled_later(given: int, samples: int) -> None:
    world = build(given=given)
    count: list[Tensor] = []
    plain = world.dynamics.prior.sample

    def counting(feature: Tensor, generator: torch.Generator | None) -> Tensor:
        count.append(feature)
        sampled: Tensor = plain(feature, generator)
        return sampled

    world.dynamics.prior.sample = counting
    world.losses(segment())
    assert len(count) == samples


TERMINATION = MapTermination.Config(channels=4, hidden=8)


@pytest.mark.parametrize("head", ["reward", "termination"])
def test_the_gradient_of_a_head_stays_there_unless_configured(head: str) -> None:
    for trains in (False, True):
        world = build(reward_trains_memory=trains, termination=TERMINATION)
        world.losses(segment()).means()[head].backward()
        reached = {name.split(".")[0] for name, p in world.dynamics.named_parameters() if moved(p)}
        assert reached == ({head, "sequence"} if trains else {head})


def test_dreams_end_only_with_a_termination_head() -> None:
    for head in (None, TERMINATION):
        world, action = build(termination=head), torch.zeros(2, dtype=torch.long)
        _, outcome = world.step(world.start(segment(), steps=1), action)
        assert bool((outcome.terminated > 0).all()) == (head is not None)
        assert (world.losses(segment()).terms.keys() >= {"termination"}) == (head is not None)


def test_a_termination_head_learns_which_steps_end_an_episode() -> None:
    world, seen = build(termination=TERMINATION), segment()
    optimiser = torch.optim.Adam(world.dynamics.termination.parameters(), 1e-2)
    for _ in range(150):
        torch.manual_seed(0)
        loss = world.losses(seen).means()["termination"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.01


def moved(parameter: Tensor) -> bool:
    return parameter.grad is not None and bool(parameter.grad.any())


def test_the_dynamics_losses_give_the_tokenizer_no_gradient() -> None:
    world = build()
    losses = world.losses(segment())
    sum(losses.means().values()).backward()  # type: ignore[union-attr]
    assert not any(moved(parameter) for parameter in world.tokenizer.parameters())
    assert losses.after == ()


def test_dynamics_losses_change_batch_statistics_only_as_in_the_released_code() -> None:
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
def test_layouts_of_the_grid(layout: str, shape: tuple[int, ...]) -> None:
    prior = Factorised.Config(shared=layout != "vector", objective="cross-entropy")
    world = build(layout=layout, prior=prior)
    carry, _ = world.step(world.start(segment(), 2), torch.tensor([0, 2]))
    view = world.view(carry)
    assert view.feature.shape == (2, *shape)
    assert view.frame.shape == (2, 1, 16, 16)
    # In every layout the frame is decoded from the same vectors.
    assert torch.equal(world.tokenizer.decode_vectors(carry.vector), view.frame)
    assert world.losses(segment()).terms["dynamics"].shape == (2, 8)


@pytest.mark.parametrize("layout", ["map", "vector"])
def test_continuous_latents(layout: str) -> None:
    prior = GaussianPrior.Config(shared=layout == "map")
    world = build(**{**CONTINUOUS, "layout": layout, "prior": prior})
    assert world.tokenizer_losses(segment()).terms.keys() == {"reconstruction", "kl"}
    assert world.losses(segment()).terms.keys() == {"dynamics", "reward"}
    start = world.start(segment(), 2)
    assert torch.equal(start.vector, world.start(segment(), 2).vector)
    carry, _ = world.step(start, torch.tensor([0, 2]), torch.Generator().manual_seed(0))
    assert world.view(carry).feature.isfinite().all()


def test_acting_and_encoding_use_no_global_random_numbers() -> None:
    """Otherwise a repeated evaluation after a stop would change the training that follows."""
    world, real = build(**CONTINUOUS), segment()
    before = torch.get_rng_state()
    carry = world.observe(real.frame[:, 0], real.action[:, 0], real.first[:, 0], None)
    assert world.view(carry).feature.isfinite().all()
    assert world.view(carry).frame.isfinite().all()
    world.start(real, 2)
    world.reconstruct(real)
    world.policy_frames(real)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        (
            {"tokenizer": Categorical.Config(filters=(8,), strides=(2,), groups=4)},
            "Categorical has no grid",
        ),
        ({"prior": GaussianPrior.Config()}, "goes with world.tokenizer=gaussian"),
        ({"tokenizer": CONTINUOUS["tokenizer"]}, "goes with world.tokenizer=gaussian"),
    ],
)
def test_parts_that_do_not_fit_are_rejected_with_a_sentence(
    choices: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        build(**choices)


def test_segments_that_are_too_short_are_rejected_with_a_sentence() -> None:
    with pytest.raises(UserError, match=r"too short for world\.frames=4"):
        build(frames=4).tokenizer_losses(segment(steps=3, opening=None))
    with pytest.raises(UserError, match=r"world.frames \+ 1 or more"):
        build().losses(segment(steps=1, opening=None))


def test_continuous_latents_are_shown_as_shades() -> None:
    world = build(**CONTINUOUS)
    shown = world.reconstruct(segment())
    assert shown.shades
    assert shown.grid == (4, 8)
    mean = world.tokenizer.encode(torch.zeros(1, 1, 16, 16)).mean
    assert shown.index.shape == (2, 9, 32) == (2, 9, mean[0].numel())
    assert not build().reconstruct(segment()).shades


def test_four_frames_are_encoded_together_and_the_newest_is_decoded() -> None:
    world = build(frames=4)
    assert world.tokenizer.encoder.layers[0].convolution.in_channels == 4
    real = segment()
    carry, _ = world.step(world.start(real, 1), torch.tensor([0, 2]))
    assert world.view(carry).frame.shape == (2, 1, 16, 16)
    # The segment does not hold all frames of its first three stacks.
    assert world.tokenizer_losses(real).masks["reconstruction"].shape == (2, 6)
    assert world.losses(real).masks["dynamics"].sum(dim=1).tolist() == [5, 5]
