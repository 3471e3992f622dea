"""A run in epochs encodes each frame once between tokenizer updates, and learns the same."""

import shutil
from pathlib import Path

import pytest
import torch
from counted_frames import count_frames

from tokenworlds.benchmarking.report import frames_encoded
from tokenworlds.core.overrides import override
from tokenworlds.core.progress import Progress
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.checkpoint import read, write
from tokenworlds.runs.recipe import Recipe, build_schedule
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.trainer import Trainer

TINY = (
    "steps=48",
    "num_envs=2",
    "schedule.steps=24",
    "schedule.first_steps=24",
    "schedule.final_epochs=0",
    'schedule.updates={"tokenizer":2,"world":3,"behaviour":2}',
    "schedule.start_after={}",
    "schedule.first_updates={}",
    "learning.tokenizer.batch=2",
    "learning.world.batch=3",
    "learning.world.length=8",
    "learning.behaviour.batch=2",
    "behaviour.horizon=2",
)


def work(trainer: Trainer, recipe: Recipe) -> None:
    """All phases of a run."""
    for phase in build_schedule(recipe).phases(Progress()):
        trainer.collect(phase)
        for name, count in phase.updates.items():
            for _ in range(count):
                trainer.update(name)


def trainer_of(name: str, folder: Path) -> Trainer:
    recipe = override(load(name, "nano", "catch").recipe, TINY)
    env = EnvSpec("catch", size=recipe.resolution, grey=recipe.grey)
    spec = RunSpec(recipe_name=name, size="nano", recipe=recipe, env=env, seed=0, threads=1)
    return Trainer(spec, folder)


@pytest.mark.parametrize("name", ["iris", "delta-iris"])
def test_a_run_with_a_token_cache_learns_the_same(name: str, tmp_path: Path) -> None:
    cached, plain = trainer_of(name, tmp_path / "cached"), trainer_of(name, tmp_path / "plain")
    plain.tokens = None
    counts = count_frames(cached.agent.world)
    for trainer in (cached, plain):
        torch.manual_seed(0)
        work(trainer, trainer.spec.recipe)
        trainer.close()
    weights = [dict(trainer.agent.named_parameters()) for trainer in (cached, plain)]
    for path, value in weights[0].items():
        torch.testing.assert_close(value, weights[1][path], rtol=1e-5, atol=1e-5)
    assert 0 < sum(counts) <= frames_encoded(cached.spec.recipe)


@pytest.mark.parametrize("name", ["iris", "delta-iris"])
def test_a_run_resumed_within_an_epoch_encodes_no_frame_again(name: str, tmp_path: Path) -> None:
    straight, counts = trainer_of(name, tmp_path / "straight"), dict[str, list[int]]()
    straight.collect(next(build_schedule(straight.spec.recipe).phases(Progress())))
    straight.update("tokenizer")
    straight.update("world")
    write(tmp_path, 0, straight.checkpoint())
    shutil.copytree(tmp_path / "straight", tmp_path / "resumed")
    resumed = trainer_of(name, tmp_path / "resumed")
    resumed.restore(read(tmp_path / "step-000000000"))
    for side, trainer in (("straight", straight), ("resumed", resumed)):
        counts[side] = count_frames(trainer.agent.world)
        for learner in ("world", "behaviour", "world"):
            trainer.update(learner)
        trainer.close()
    assert counts["resumed"] == counts["straight"]
    weights = [trainer.agent.state_dict() for trainer in (straight, resumed)]
    assert all(torch.equal(value, weights[1][path]) for path, value in weights[0].items())


def test_a_tokenizer_update_clears_the_cache(tmp_path: Path) -> None:
    trainer = trainer_of("iris", tmp_path)
    trainer.collect(next(build_schedule(trainer.spec.recipe).phases(Progress())))
    trainer.update("world")
    assert trainer.tokens is not None
    assert (trainer.tokens.state()["tokens"] >= 0).any()
    trainer.update("tokenizer")
    assert not (trainer.tokens.state()["tokens"] >= 0).any()
    trainer.close()
