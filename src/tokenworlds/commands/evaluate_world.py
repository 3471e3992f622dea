"""`tokenworlds evaluate RUN --world`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenworlds.core.errors import UserError

if TYPE_CHECKING:
    from tokenworlds.agent import Agent
    from tokenworlds.commands.evaluate import Evaluate
    from tokenworlds.evaluation.world.held_out import HeldOut
    from tokenworlds.evaluation.world.measurement import Measured
    from tokenworlds.runs.checkpoint import Checkpoint
    from tokenworlds.runs.folder import RunFolder
    from tokenworlds.runs.spec import RunSpec
    from tokenworlds.training.evaluation import TrainedAgent

REPLAY_WINDOWS, REPLAY_LENGTH = 16, 64
"""Windows of replay that are predicted beside the held-out episodes, and their steps."""


def evaluate_world(options: "Evaluate", folder: "RunFolder", spec: "RunSpec") -> int:
    """Measure the world model, write the figures, and print them or what they say."""
    from tokenworlds.evaluation.world.results import (
        newest_world,
        read_world,
        world_path,
        write_world,
    )
    from tokenworlds.training.evaluation import load_agent

    network = video_network(options.fvd_network)
    others = [newest_world(Path(run)) for run in options.compare]
    chosen = folder.chosen(options.checkpoint)
    for text in chosen.skipped:
        print(f"note: {text}", file=sys.stderr)
    trained = load_agent(spec, chosen.checkpoint)
    replay = replay_windows(folder, spec, trained.agent, chosen.checkpoint)
    document, measured = measure_run(options, spec, trained, folder.path, network, replay)
    usual = spec.recipe.evaluation.temperature
    path = write_world(world_path(folder.path, document, options.episodes, usual), document)
    # Imported here because matplotlib is slow to import.
    from tokenworlds.evaluation.world.document import write_overlay, write_page

    page = write_page(path.with_suffix(".html"), read_world(path), measured)
    lines = [verdict_text(document), f"file    {path}", f"page    {page}"]
    if options.compare:
        compared = path.with_name(f"{path.stem}-compared.html")
        lines.append(f"page    {write_overlay(compared, labelled([path, *others]))}")
    print(path.read_text() if options.json else "\n".join(lines), end="" if options.json else "\n")
    return 0


def labelled(paths: list[Path]) -> dict[str, Any]:
    """The figures of several runs, by the run's folder; by its name alone if that is enough."""
    from tokenworlds.evaluation.world.results import read_world

    runs = [path.resolve().parent.parent for path in paths]
    short = len({run.name for run in runs}) == len(runs)
    names = [run.name if short else str(run) for run in runs]
    return {name: read_world(path) for name, path in zip(names, paths, strict=True)}


def replay_windows(
    folder: "RunFolder", spec: "RunSpec", agent: "Agent", checkpoint: "Checkpoint"
) -> "HeldOut | None":
    """Windows of replay, which the world learned from."""
    from tokenworlds.core.seeding import numpy_generator
    from tokenworlds.evaluation.world.held_out import HeldOut
    from tokenworlds.replay.sampling import gather
    from tokenworlds.training.evaluation import open_replay

    store = open_replay(folder, spec, agent, checkpoint)
    length = min(REPLAY_LENGTH, store.length)
    if length < 2:
        return None
    most = [store.num_envs, store.length - length + 1]
    starts = numpy_generator(spec.seed, "world").integers(0, most, size=(REPLAY_WINDOWS, 2))
    return HeldOut(gather(store, starts, length), finished=0)


def measure_run(
    options: "Evaluate",
    spec: "RunSpec",
    trained: "TrainedAgent",
    run: Path,
    network: Path | None,
    replay: "HeldOut | None",
) -> "tuple[dict[str, Any], Measured]":
    """Who was measured and how, and the figures; and the frames behind them."""
    from dataclasses import asdict

    from tokenworlds.core.seeding import torch_generator
    from tokenworlds.evaluation.world.measurement import measure
    from tokenworlds.evaluation.world.verdict import conclude, judge

    agent = trained.agent
    if agent.behaviour.horizon == 0:
        raise UserError(f"{run} has no world model: its agent learns from real steps alone")
    seed = spec.seed if options.seed is None else options.seed
    usual = spec.recipe.evaluation.temperature
    temperature = usual if options.temperature is None else options.temperature
    held = play_new_games(options, spec, trained, seed, temperature)
    measured = measure(
        agent, held, torch_generator(seed, "world", device=str(agent.device)), replay
    )
    figures = with_video_distance(measured, network)
    findings = judge(figures)
    document = {
        **header(spec, trained),
        "protocol": options.protocol or spec.env.protocol,
        "seed": seed,
        "temperature": temperature,
        **figures,
        "verdict": [asdict(finding) for finding in findings],
        "conclusion": conclude(findings),
    }
    return document, measured


def play_new_games(
    options: "Evaluate", spec: "RunSpec", trained: "TrainedAgent", seed: int, temperature: float
) -> "HeldOut":
    from dataclasses import replace

    from tokenworlds.evaluation.episodes import evaluation_seed
    from tokenworlds.evaluation.world.held_out import play_held_out

    return play_held_out(
        trained.agent,
        replace(spec.env, protocol=options.protocol or spec.env.protocol),
        seed=evaluation_seed(seed, trained.progress.steps),
        temperature=temperature,
        episodes=options.episodes,
    )


def video_network(name: str) -> Path | None:
    path = Path(name) if name else None
    if path is not None and not path.is_file():
        raise UserError(f"--fvd-network {name} is no file: give a TorchScript file of I3D")
    return path


def with_video_distance(measured: "Measured", network: Path | None) -> dict[str, Any]:
    """The figures with the distance between real and imagined videos, or why there is none."""
    from tokenworlds.evaluation.world.frechet import video_distances

    found = video_distances(measured.real, measured.imagined, measured.known, network)
    if isinstance(found, str):
        return {**measured.figures, "absent": {**measured.figures["absent"], "video": found}}
    return {**measured.figures, "video": found}


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
    return "\n".join([*lines, f"so      {document['conclusion']}"])
