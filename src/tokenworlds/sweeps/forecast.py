"""Hours and disk of a sweep, from a few timed updates of each kind of run on this machine."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from tokenworlds.agent import Agent
from tokenworlds.core.description import to_json
from tokenworlds.runs.extension import schedule_of
from tokenworlds.runs.spec import RunSpec
from tokenworlds.sweeps.plan import Job
from tokenworlds.sweeps.status import row
from tokenworlds.training.estimate import Estimate, forecast


@dataclass(frozen=True, slots=True)
class Planned:
    """A run of a sweep; `estimate` is None if its updates could not be timed. `left` is the share
    of its steps that is not done."""

    job: Job
    spec: RunSpec
    estimate: Estimate | None
    left: float


@dataclass(frozen=True, slots=True)
class Total:
    """Seconds one run after the other, and bytes; `unknown` runs are not among them."""

    seconds: float
    disk: int
    unknown: int


def kind_of(spec: RunSpec) -> str:
    """Runs of one kind take the same time: they differ in seed and game."""
    family = spec.env.name.partition(":")[0]
    where = (spec.env.protocol, spec.threads, spec.device, spec.precision)
    return json.dumps([to_json(spec.recipe), family, *where])


def plan(
    jobs: Sequence[Job],
    specs: Sequence[RunSpec],
    folder: Path,
    known: Mapping[str, Estimate | None],
) -> list[Planned]:
    """Every run with its estimate, by kind."""
    found = []
    for job, spec in zip(jobs, specs, strict=True):
        state = row(job, folder)
        left = 0.0 if state.state == "finished" else 1.0 - state.step / spec.recipe.steps
        found.append(Planned(job, spec, known[kind_of(spec)], max(left, 0.0)))
    return found


def measure(spec: RunSpec) -> Estimate | None:
    """Time the updates of a run, on as many threads as it will have."""
    before = torch.get_num_threads()
    torch.set_num_threads(spec.threads)
    env = spec.env.make()
    shape, space = env.frame_shape, env.action_space
    env.close()
    try:
        agent = Agent.build(spec.recipe, shape, space, spec.precision).to(spec.device)
        return forecast(agent, spec, schedule_of(spec).goal)
    finally:
        torch.set_num_threads(before)


def total(planned: Sequence[Planned]) -> Total:
    known = [(each.estimate, each.left) for each in planned if each.estimate is not None]
    return Total(
        seconds=sum(found.seconds * left for found, left in known),
        disk=sum(found.disk for found, _ in known),
        unknown=len(planned) - len(known),
    )
