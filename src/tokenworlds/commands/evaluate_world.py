"""`tokenworlds evaluate RUN --world`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenworlds.core.errors import UserError

if TYPE_CHECKING:
    from tokenworlds.commands.evaluate import Evaluate
    from tokenworlds.runs.folder import RunFolder
    from tokenworlds.runs.spec import RunSpec
    from tokenworlds.training.evaluation import TrainedAgent


def evaluate_world(options: "Evaluate", folder: "RunFolder", spec: "RunSpec") -> int:
    """Measure the world model, write the figures, and print them or what they say."""
    from tokenworlds.evaluation.world.results import world_path, write_world
    from tokenworlds.training.evaluation import load_agent

    chosen = folder.chosen(options.checkpoint)
    for text in chosen.skipped:
        print(f"note: {text}", file=sys.stderr)
    document = measure_run(options, spec, load_agent(spec, chosen.checkpoint), folder.path)
    path = write_world(world_path(folder.path, document, options.episodes), document)
    if options.json:
        print(path.read_text(), end="")
    else:
        print(verdict_text(document))
        print(f"file    {path}")
    return 0


def measure_run(
    options: "Evaluate", spec: "RunSpec", trained: "TrainedAgent", run: Path
) -> dict[str, Any]:
    """Who was measured and how, and the figures."""
    from dataclasses import asdict, replace

    from tokenworlds.core.seeding import torch_generator
    from tokenworlds.evaluation.episodes import evaluation_seed
    from tokenworlds.evaluation.world.held_out import play_held_out
    from tokenworlds.evaluation.world.measurement import measure
    from tokenworlds.evaluation.world.verdict import judge

    agent, progress = trained.agent, trained.progress
    if agent.behaviour.horizon == 0:
        raise UserError(f"{run} has no world model: its agent learns from real steps alone")
    seed = spec.seed if options.seed is None else options.seed
    usual = spec.recipe.evaluation.temperature
    temperature = usual if options.temperature is None else options.temperature
    held = play_held_out(
        agent,
        replace(spec.env, protocol=options.protocol or spec.env.protocol),
        seed=evaluation_seed(seed, progress.steps),
        temperature=temperature,
        episodes=options.episodes,
    )
    generator = torch_generator(seed, "world", device=str(agent.device))
    figures = measure(agent, held, generator).figures
    return {
        **header(spec, trained),
        "protocol": options.protocol or spec.env.protocol,
        "seed": seed,
        "temperature": temperature,
        **figures,
        "verdict": [asdict(finding) for finding in judge(figures)],
    }


def header(spec: "RunSpec", trained: "TrainedAgent") -> dict[str, Any]:
    from tokenworlds.evaluation.world.results import KIND

    return {
        "kind": KIND,
        "recipe": spec.recipe_name,
        "size": spec.size,
        "env": spec.env.name,
        "agent_steps": trained.progress.steps,
        "gradient_steps": trained.progress.gradient_steps,
        "checkpoint": trained.manifest,
    }


def verdict_text(document: Mapping[str, Any]) -> str:
    """A line for each part, and the first part that is at fault."""
    marks = {"good": "good   ", "fault": "fault  ", "unknown": "?      "}
    lines = [f"{marks[each['status']]} {each['sentence']}" for each in document["verdict"]]
    faults = [each["part"] for each in document["verdict"] if each["status"] == "fault"]
    first = f"look first at the {faults[0]}" if faults else "no part is clearly at fault"
    return "\n".join([*lines, f"so      {first}"])
