"""What is measured of a recipe is the work of a run, on shapes of the recipe's own."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tokenworlds.benchmarking.batches import ladder
from tokenworlds.benchmarking.flops import count_flops
from tokenworlds.benchmarking.subjects import first_rows, random_segment, subjects
from tokenworlds.core.config import variant
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.envs.spec import EnvSpec
from tokenworlds.recipes.catalogue import load

LEARNERS = {
    "step-vq-m": ["world", "behaviour"],
    "delta-iris": ["tokenizer", "world", "behaviour"],
    "swm-continuous": ["tokenizer", "world", "behaviour"],
    "ppo": ["behaviour"],
}


@pytest.mark.parametrize(
    ("name", "env"), list(zip(LEARNERS, ["steer", "catch", "catch", "steer"], strict=True))
)
def test_every_learner_the_dream_the_acting_and_the_environment_can_be_measured(
    name: str, env: str
) -> None:
    recipe = load(name, "nano", env).recipe
    with subjects(recipe, EnvSpec(env, "", recipe.resolution, recipe.grey)) as found:
        by_name = {subject.name: subject for subject in found}
        dreams = [] if name == "ppo" else ["dream"]
        # Only this one learns to draw and to foresee in one update.
        shares = ["autoencoder"] if name == "step-vq-m" else []
        # And only this one finds the codes of its frames known.
        shares += ["codes"] if name == "delta-iris" else []
        assert list(by_name) == [*LEARNERS[name], *shares, *dreams, "acting", "environment"]
        for learner in LEARNERS[name]:
            learning, subject = recipe.learning[learner], by_name[learner]
            assert (subject.kind, subject.rows) == ("update", learning.batch)
            assert subject.steps == learning.length
        for subject in found:
            whole = subject.kind in ("acting", "environment")
            rows = subject.rows if whole else ladder(subject.rows)[0]
            counted = count_flops(subject.prepare(rows)).total
            assert (counted > 0) == (subject.kind != "environment")


def test_an_update_moves_the_weights_and_a_dream_does_not() -> None:
    recipe = load("step-vq-m", "nano", "catch").recipe
    with subjects(recipe, EnvSpec("catch", "", recipe.resolution)) as found:
        update, dream = (s for s in found if s.name in ("behaviour", "dream"))
        learner = update.prepare(2).func.__self__  # type: ignore[attr-defined]
        before = [p.clone() for p in learner.module.parameters()]
        dream.prepare(2)()
        assert all(map(torch.equal, before, learner.module.parameters()))
        update.prepare(2)()
        assert not all(map(torch.equal, before, learner.module.parameters()))


def test_the_autoencoder_is_the_tokenizers_share_of_the_worlds_update() -> None:
    """Encoder and decoder, forward and back to all weights but not to the frames."""
    recipe = load("step-vq-m", "nano", "catch").recipe
    with subjects(recipe, EnvSpec("catch", "", recipe.resolution)) as found:
        world, share = (s for s in found if s.name in ("world", "autoencoder"))
        assert (share.rows, share.steps) == (world.rows, world.steps)
        whole, part = (count_flops(each.prepare(1)) for each in (world, share))
        assert part.convolution == whole.convolution
        assert part.matmul < whole.matmul / 2
        learner = share.prepare(1).func.__self__  # type: ignore[attr-defined]
        assert set(learner.learning.scales) == {"reconstruction", "commitment"}


@pytest.mark.parametrize("name", ["iris", "delta-iris"])
def test_what_is_coded_once_is_measured_once(name: str) -> None:
    """The frames of an update are coded in a figure of their own, and in no other."""
    recipe = load(name, "nano", "catch").recipe
    with subjects(recipe, EnvSpec("catch", "", recipe.resolution)) as found:
        world, codes = (s for s in found if s.name in ("world", "codes"))
        update: Any = world.prepare(2)
        learner, plain = update.func.__self__, replace(update.args[0], codes=None)
        apart = count_flops(world.prepare(2)).total + count_flops(codes.prepare(2)).total
        assert apart == count_flops(lambda: learner.update(plain)).total
        assert (codes.kind, codes.rows) == ("codes", world.rows)


def test_segments_are_noise_in_the_midst_of_episodes() -> None:
    generator = torch.Generator().manual_seed(0)
    for space in (ActionSpace(5), ActionSpace(2, discrete=False)):
        segment = random_segment(FrameShape(8, 6, 1), space, 4, 3, generator)
        assert segment.frame.shape == (4, 3, 8, 6, 1)
        assert segment.action.shape[:2] == (4, 3)
        assert len(segment.frame.unique()) > 100
        assert segment.reward.unique().tolist() == [-1.0, 0.0, 1.0]
        assert segment.mask.all()
        assert not (segment.first | segment.terminated | segment.truncated).any()
        part = first_rows(segment, 2)
        assert torch.equal(part.frame, segment.frame[:2])
        assert part.mask.shape == (2, 3)


def test_a_recipe_that_does_not_fit_together_is_told() -> None:
    changes = {"world.tokenizer.groups": 5}
    recipe = variant(load("step-vq-m", "nano", "catch").recipe, changes)
    with (
        pytest.raises(UserError, match="the recipe does not fit together"),
        subjects(recipe, EnvSpec("catch", "", recipe.resolution)),
    ):
        pass
