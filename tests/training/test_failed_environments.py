"""A run whose environment fails can be saved and then continues like one that never failed."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tokenworlds.core.errors import UserError
from tokenworlds.core.overrides import override
from tokenworlds.core.types import EnvStep
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.envs.toys import Catch
from tokenworlds.envs.vector import EnvironmentFailed
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs import checkpoint as files
from tokenworlds.runs.checkpoint import Checkpoint
from tokenworlds.runs.recipe import build_schedule
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training import trainer as module
from tokenworlds.training.trainer import Trainer

WARM_UP = 32
SMALL = (
    "steps=48",
    "num_envs=2",
    f"schedule.warm_up={WARM_UP}",
    "collection.random_share=0.2",
    "behaviour.horizon=2",
)
SEPARATE = (
    *SMALL,
    "learning.world.batch=2",
    "learning.world.length=4",
    "learning.behaviour.batch=2",
    'schedule.updates={"world":0.25,"behaviour":0.25}',
)
JOINT = (
    *SMALL,
    "learning.agent.batch=2",
    "learning.agent.length=4",
    'schedule.updates={"agent":0.25}',
)


def spec_of(recipe: str, settings: tuple[str, ...]) -> RunSpec:
    changed = override(load(recipe, "nano").recipe, settings)
    env = EnvSpec("catch", size=changed.resolution, grey=changed.grey)
    return RunSpec(recipe_name=recipe, size="nano", recipe=changed, env=env, seed=0, threads=1)


def train(spec: RunSpec, folder: Path, saved: Checkpoint | None = None) -> Checkpoint:
    """Train until the end or until an environment fails; returns a checkpoint from disk."""
    trainer = Trainer(spec, folder)
    if saved is None:
        trainer.replay.clear()
    else:
        assert trainer.restore(saved) == []
    try:
        for phase in build_schedule(spec.recipe).phases(trainer.progress):
            trainer.collect(phase)
            for name in phase.learners:
                trainer.update(name)
    except EnvironmentFailed:
        assert saved is None
    finally:
        trainer.close()
    step, place = trainer.progress.steps, folder / "checkpoints"
    files.write(place, step, trainer.checkpoint())
    return files.read(place / files.folder_name(step))


def fail_once(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let the second copy of catch fail after this many steps of both."""
    advance, calls = Catch.advance, iter(range(1_000_000))

    def failing(self: Catch, action: Any) -> EnvStep:
        if next(calls) == 2 * after + 1:
            raise OSError(28, "No space left on device")
        return advance(self, action)

    monkeypatch.setattr(Catch, "advance", failing)


@pytest.mark.parametrize("after", [9, 20], ids=["random", "acting"])
@pytest.mark.parametrize(
    ("recipe", "settings"),
    [("step-vq-m", SEPARATE), ("storm", SEPARATE), ("dreamer-v3", JOINT)],
    ids=["step-vq-m", "storm", "dreamer-v3"],
)
def test_a_failed_run_continues_like_its_uninterrupted_twin(
    recipe: str,
    settings: tuple[str, ...],
    after: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = spec_of(recipe, settings)
    straight = train(spec, tmp_path / "straight")
    with monkeypatch.context() as patch:
        fail_once(patch, after)
        cut = train(spec, tmp_path / "failed")
    assert cut.state["steps"] == 2 * after
    assert cut.state["replay"]["length"] == after
    resumed = train(spec, tmp_path / "failed", cut)
    assert resumed.state == straight.state
    assert resumed.tensors.keys() == straight.tensors.keys()
    for name, tensors in straight.tensors.items():
        assert resumed.tensors[name].keys() == tensors.keys()
        for key, tensor in tensors.items():
            assert torch.equal(resumed.tensors[name][key], tensor), f"{name}/{key}"


def test_environments_that_do_not_fit_into_memory_are_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any, **named: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(module, "ReplayStore", full)
    with pytest.raises(UserError, match="num_envs=2 environments do not fit into memory"):
        Trainer(spec_of("step-vq-m", SEPARATE), tmp_path)
