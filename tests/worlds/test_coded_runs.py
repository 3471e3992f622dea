"""A run in epochs codes no frame twice while its tokenizer stands still, and learns the same."""

import shutil
from pathlib import Path

import pytest
import torch
from counted_frames import count_frames

from tokenworlds.benchmarking.report import frames_encoded
from tokenworlds.core.description import override
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


def work(job: Trainer, recipe: Recipe) -> None:
    """All phases of a run."""
    for phase in build_schedule(recipe).phases(Progress()):
        job.collect(phase)
        for name, count in phase.updates.items():
            for _ in range(count):
                job.update(name)


def job_of(name: str, folder: Path) -> Trainer:
    recipe = override(load(name, "nano", "catch").recipe, TINY)
    env = EnvSpec("catch", size=recipe.resolution, grey=recipe.grey)
    spec = RunSpec(recipe_name=name, size="nano", recipe=recipe, env=env, seed=0, threads=1)
    return Trainer(spec, folder)


@pytest.mark.parametrize("name", ["iris", "delta-iris"])
def test_a_run_that_knows_its_codes_learns_what_any_other_learns(name: str, tmp_path: Path) -> None:
    knowing, plain = job_of(name, tmp_path / "knowing"), job_of(name, tmp_path / "plain")
    plain.codes = None
    asked = count_frames(knowing.agent.world)
    for job in (knowing, plain):
        torch.manual_seed(0)
        work(job, job.spec.recipe)
        job.close()
    weights = [dict(job.agent.named_parameters()) for job in (knowing, plain)]
    for path, value in weights[0].items():
        torch.testing.assert_close(value, weights[1][path], rtol=1e-5, atol=1e-5)
    assert 0 < sum(asked) <= frames_encoded(knowing.spec.recipe)


@pytest.mark.parametrize("name", ["iris", "delta-iris"])
def test_a_run_taken_up_in_an_epoch_codes_no_frame_again(name: str, tmp_path: Path) -> None:
    straight, asked = job_of(name, tmp_path / "straight"), dict[str, list[int]]()
    straight.collect(next(build_schedule(straight.spec.recipe).phases(Progress())))
    straight.update("tokenizer")
    straight.update("world")
    folder = write(tmp_path, 0, straight.checkpoint())
    shutil.copytree(tmp_path / "straight", tmp_path / "resumed")
    resumed = job_of(name, tmp_path / "resumed")
    resumed.restore(read(folder))
    for side, job in (("straight", straight), ("resumed", resumed)):
        asked[side] = count_frames(job.agent.world)
        for learner in ("world", "behaviour", "world"):
            job.update(learner)
        job.close()
    assert asked["resumed"] == asked["straight"]
    weights = [job.agent.state_dict() for job in (straight, resumed)]
    assert all(torch.equal(value, weights[1][path]) for path, value in weights[0].items())


def test_an_update_of_the_tokenizer_makes_its_codes_unknown(tmp_path: Path) -> None:
    job = job_of("iris", tmp_path)
    job.collect(next(build_schedule(job.spec.recipe).phases(Progress())))
    job.update("world")
    assert job.codes is not None
    assert (job.codes.state()["codes"] >= 0).any()
    job.update("tokenizer")
    assert not (job.codes.state()["codes"] >= 0).any()
    job.close()
