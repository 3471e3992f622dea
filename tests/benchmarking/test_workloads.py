"""Workloads do the work of a run, on the shapes of their recipe."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tokenworlds.benchmarking.measurement import halvings
from tokenworlds.benchmarking.meters import count_flops
from tokenworlds.benchmarking.workloads import on_rows, open_workloads, random_segment
from tokenworlds.core.config import variant
from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, FrameShape, Segment
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.recipes.catalogue import load

LEARNERS = {
    "step-vq-m": ["world", "behaviour"],
    "delta-iris": ["tokenizer", "world", "behaviour"],
    "swm-continuous": ["tokenizer", "world", "behaviour"],
    "dreamer-v3": ["agent"],
    "ppo": ["behaviour"],
}


@pytest.mark.parametrize(
    ("name", "env"), list(zip(LEARNERS, ["steer", "catch", "catch", "catch", "steer"], strict=True))
)
def test_learners_dreams_acting_and_the_environment_are_workloads(name: str, env: str) -> None:
    recipe = load(name, "nano", env).recipe
    with open_workloads(recipe, EnvSpec(env, "", recipe.resolution, recipe.grey)) as found:
        by_name = {workload.name: workload for workload in found}
        dreams = [] if name == "ppo" else ["dream"]
        # Only this recipe trains the tokenizer in the world's update.
        parts = ["autoencoder"] if name == "step-vq-m" else []
        # And only this recipe caches tokens.
        parts += ["encoding"] if name == "delta-iris" else []
        assert list(by_name) == [*LEARNERS[name], *parts, *dreams, "acting", "environment"]
        for learner in LEARNERS[name]:
            learning, workload = recipe.learning[learner], by_name[learner]
            assert (workload.kind, workload.rows) == ("update", learning.batch)
            assert (workload.steps, workload.learner) == (learning.length, learner)
        if name == "dreamer-v3":
            agent = recipe.learning["agent"]
            assert by_name["dream"].rows == agent.batch * (agent.length - 1)
        for workload in found:
            whole = workload.kind in ("acting", "environment")
            rows = workload.rows if whole else halvings(workload.rows)[0]
            counted = count_flops(workload.prepare(rows)).total
            assert (counted > 0) == (workload.kind != "environment")


def test_an_update_changes_weights_and_a_dream_does_not() -> None:
    recipe = load("step-vq-m", "nano", "catch").recipe
    with open_workloads(recipe, EnvSpec("catch", "", recipe.resolution)) as found:
        update, dream = (each for each in found if each.name in ("behaviour", "dream"))
        learner = update.prepare(2).func.__self__  # type: ignore[attr-defined]
        before = [p.clone() for p in learner.module.parameters()]
        dream.prepare(2)()
        assert all(map(torch.equal, before, learner.module.parameters()))
        update.prepare(2)()
        assert not all(map(torch.equal, before, learner.module.parameters()))


def test_the_autoencoder_is_the_tokenizers_part_of_the_worlds_update() -> None:
    """Encoder and decoder, forward and back to all weights but not to the frames.

    Without local dynamics, whose convolutions are another part of the update.
    """
    recipe = variant(load("step-vq-m", "nano", "catch").recipe, {"world.local": None})
    with open_workloads(recipe, EnvSpec("catch", "", recipe.resolution)) as found:
        world, tokenizer = (each for each in found if each.name in ("world", "autoencoder"))
        assert (tokenizer.rows, tokenizer.steps) == (world.rows, world.steps)
        whole, part = (count_flops(each.prepare(1)) for each in (world, tokenizer))
        assert part.convolution == whole.convolution
        assert part.matmul < whole.matmul / 2
        update: Any = tokenizer.prepare(1)
        metrics, _ = update()
        losses = {name.removeprefix("autoencoder/loss/") for name in metrics if "/loss/" in name}
        assert losses == {"reconstruction", "commitment", "total"}


@pytest.mark.parametrize("name", ["iris", "delta-iris"])
def test_frames_are_encoded_in_their_own_workload_only(name: str) -> None:
    recipe = load(name, "nano", "catch").recipe
    with open_workloads(recipe, EnvSpec("catch", "", recipe.resolution)) as found:
        world, encoding = (each for each in found if each.name in ("world", "encoding"))
        update: Any = world.prepare(2)
        learner, plain = update.func.__self__, replace(update.args[0], tokens=None)
        apart = count_flops(world.prepare(2)).total + count_flops(encoding.prepare(2)).total
        assert apart == count_flops(lambda: learner.update(plain)).total
        assert (encoding.kind, encoding.rows) == ("encoding", world.rows)


def test_segments_are_noise_from_the_middle_of_episodes() -> None:
    generator = torch.Generator().manual_seed(0)
    for space in (ActionSpace(5), ActionSpace(2, discrete=False)):
        segment = random_segment(FrameShape(8, 6, 1), space, 4, 3, generator)
        assert segment.frame.shape == (4, 3, 8, 6, 1)
        assert segment.action.shape[:2] == (4, 3)
        assert len(segment.frame.unique()) > 100
        assert segment.reward.unique().tolist() == [-1.0, 0.0, 1.0]
        assert segment.mask.all()
        assert not (segment.first | segment.terminated | segment.truncated).any()
        parts = list[Segment]()
        on_rows(segment, parts.append)(2)()
        assert torch.equal(parts[0].frame, segment.frame[:2])
        assert parts[0].mask.shape == (2, 3)


def test_a_recipe_that_does_not_fit_together_is_an_error() -> None:
    changes = {"world.tokenizer.groups": 5}
    recipe = variant(load("step-vq-m", "nano", "catch").recipe, changes)
    with (
        pytest.raises(UserError, match="the recipe does not fit together"),
        open_workloads(recipe, EnvSpec("catch", "", recipe.resolution)),
    ):
        pass
