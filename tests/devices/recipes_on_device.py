"""Run recipes on the pretended device; prints one JSON line for each: its name and its error.

    python recipes_on_device.py storm iris "step-vq-m:an index on the CPU" ...

What follows a colon is a fault to plant. "doctor:storm" compares as `tokenworlds doctor` does.
"""

import json
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from planted_faults import planted
from torch import Tensor

from tokenworlds.agent import Agent
from tokenworlds.benchmarking.pretended_device import NAME, pretended_device
from tokenworlds.benchmarking.workloads import random_segment
from tokenworlds.commands import card
from tokenworlds.core.config import variant
from tokenworlds.core.progress import Phase
from tokenworlds.core.seeding import torch_generator
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs import checkpoint as checkpoints
from tokenworlds.runs.recipe import Recipe
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.dry_run import dry_run
from tokenworlds.training.trainer import Trainer
from tokenworlds.worlds.delta_iris import DeltaIris

COLLECTED, DREAMED, ROWS = 24, 2, 2


def spec_of(name: str, device: str) -> RunSpec:
    recipe = load(name, "nano").recipe
    changes: dict[str, Any] = {"num_envs": ROWS}
    if recipe.behaviour.__class__.__qualname__ != "PPO.Config":
        changes["behaviour.horizon"] = DREAMED
    for learner, learning in recipe.learning.items():
        changes[f"learning.{learner}.batch"] = ROWS
        changes[f"learning.{learner}.length"] = min(learning.length, COLLECTED // 3)
    small = variant(recipe, changes)
    env = EnvSpec("catch", size=small.resolution, grey=small.grey)
    return RunSpec(
        recipe_name=name, size="nano", recipe=small, env=env, seed=0, threads=1, device=device
    )


def check(name: str) -> None:
    """Collect, learn, dream, save, resume; the resumed run ends as the first does."""
    spec = spec_of(name, NAME)
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "checkpoints"
        with closing(Trainer(spec, Path(parent))) as first:
            assert first.agent.device.type == NAME
            dry_run(first.agent, spec.recipe, first.envs.frame_shape)
            first.collect(Phase(COLLECTED, {}, random=True))
            learn(first)
            checkpoints.write(folder, 1, first.checkpoint())
            expected = after_more(first)
            compare_dreams(first.agent, spec.recipe)
        with closing(Trainer(spec, Path(parent))) as second:
            second.restore(checkpoints.read(checkpoints.newest_first(folder)[0]))
            found = after_more(second)
    different = {each for each in expected if not torch.equal(expected[each], found[each])}
    assert expected.keys() == found.keys()
    assert not different, f"{sorted(different)[0]} differs after a resume"


def after_more(trainer: Trainer) -> dict[str, Tensor]:
    """All tensors of a checkpoint after some more steps and updates, on the CPU."""
    trainer.collect(Phase(2, {}))
    learn(trainer)
    tensors = trainer.checkpoint().tensors
    return {
        f"{kind} {name}": tensor.detach().cpu().clone()
        for kind, named in tensors.items()
        for name, tensor in named.items()
    }


def learn(trainer: Trainer) -> None:
    for name in trainer.learners:
        metrics = trainer.update(name)
        assert all(value.isfinite() for value in metrics.values())


def compare_dreams(agent: Agent, recipe: Recipe) -> None:
    """A dream on the device is the dream of the same weights on the CPU, but for rounding."""
    if not agent.behaviour.horizon:
        return
    on_cpu = Agent.build(recipe, agent.frame_shape, agent.action_space)
    on_cpu.load_state_dict({name: each.cpu() for name, each in agent.state_dict().items()})
    # Frames of Δ-IRIS are rounded to bytes: one that rounds the other way changes what follows.
    rounds = isinstance(agent.world, DeltaIris)
    for found, expected in zip(dream(agent), dream(on_cpu), strict=True):
        assert all(tensor.device.type == NAME for tensor in found.values())
        for name in ("reward", "terminated", "action", *(() if rounds else ("feature", "frame"))):
            assert torch.allclose(found[name].cpu(), expected[name], atol=1e-4), name
        if rounds:
            off = (found["frame"].cpu() - expected["frame"]).abs() * 255
            assert off.max() < 1.5, "frame"
            assert (off > 0.5).float().mean() < 0.01, "frame"
            return


@torch.no_grad()
def dream(agent: Agent) -> Iterator[dict[str, Tensor]]:
    shape, space = agent.frame_shape, agent.action_space
    segment = random_segment(shape, space, ROWS, 5, torch.Generator().manual_seed(0))
    first = segment.first.clone()
    first[0, 2] = True
    generator = torch_generator(0, "dream", device=str(agent.device))
    steps = agent.imagine(replace(segment, first=first), DREAMED, generator=generator)
    for step in steps:
        outcome, after = step.outcome, step.after
        yield {
            **{"reward": outcome.reward, "terminated": outcome.terminated, "action": step.action},
            **{"feature": after.feature, "frame": after.frame},
        }


def run(recipe: str, word: str) -> None:
    if recipe == "doctor":
        found = card.compare(word, NAME, "float32")
        assert found.agrees, found.text()
        return
    with planted(word) if word else nullcontext():
        check(recipe)


def main(names: list[str]) -> None:
    for name in names:
        recipe, _, plant = name.partition(":")
        error = ""
        try:
            with pretended_device():
                run(recipe, plant)
        except Exception:
            error = traceback.format_exc()
        print(json.dumps({"recipe": name, "error": error}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
