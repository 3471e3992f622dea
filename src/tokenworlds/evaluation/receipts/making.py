"""Make receipts from run folders. Runs that do not belong together are refused."""

import itertools
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenworlds.core import files
from tokenworlds.core.errors import UserError
from tokenworlds.evaluation import results
from tokenworlds.evaluation.comparison.description import LONGEST_RUN, RUN, Description
from tokenworlds.evaluation.comparison.grouping import UNLIKE
from tokenworlds.evaluation.comparison.listing import find_runs, list_run
from tokenworlds.evaluation.comparison.loading import Run, is_run, read_run
from tokenworlds.evaluation.comparison.numbers import curve_points
from tokenworlds.evaluation.receipts.receipt import (
    AFTER,
    BEST,
    DURING,
    LAST,
    TUNED_ON,
    Curve,
    Receipt,
    SeedResult,
    read_receipt,
    to_text,
)
from tokenworlds.evaluation.receipts.settings import differing, settings_hash, stated
from tokenworlds.evaluation.results import Result, Score
from tokenworlds.published.references import reference_sets
from tokenworlds.runs.events import read_events_with

Usual = Callable[[Description], Mapping[str, Any] | None]
EPISODES = "evaluation/episodes"
REFERENCES = "exact"
"""The set of random and human scores of Atari games."""
POINTS = 40
"""At most this many points in a curve."""
ALIKE = {"size": "sizes", "protocol": "protocols", "steps": "agent steps"}
MACHINE = ("python", "packages", "commit", "system", "processor", "cores", "accelerator")
COMPUTING = ("threads", "device", "precision", "compiled")


@dataclass(frozen=True, slots=True)
class Source:
    """A run that may enter a receipt; `result` is None if it is not finished."""

    path: Path
    run: Run
    about: Description
    document: Mapping[str, Any]
    result: Result | None
    reached: int


def unknown_recipe(about: Description) -> None:
    """Nothing is known of the recipe's own settings."""


def make_receipts(
    sources: Sequence[str],
    unfinished: bool = False,
    checkpoint: str = LAST,
    usual: Usual = unknown_recipe,
) -> list[Receipt]:
    """A receipt for every agent and game, in the order in which they are found.

    `usual` gives the settings of a run's recipe as it is without changes, if it is known.
    """
    groups: dict[tuple[str, str], list[Source]] = {}
    for path in run_folders(sources):
        source = read_source(path, unfinished, checkpoint)
        groups.setdefault((source.about.recipe, source.about.env), []).append(source)
    return [make_receipt(group, checkpoint, usual) for group in groups.values()]


def run_folders(sources: Sequence[str]) -> list[Path]:
    found: dict[str, Path] = {}
    for source in sources:
        path = Path(source)
        if not path.is_dir():
            raise UserError(f"{source!r} is no run and no folder of runs")
        runs = [path] if is_run(path) else find_runs(path)
        if not runs:
            raise UserError(f"{source!r} holds no runs")
        found |= {os.path.realpath(run): run for run in runs}
    return list(found.values())


def read_source(path: Path, unfinished: bool, checkpoint: str) -> Source:
    listed = list_run(path)
    about = listed.description
    if listed.state == "damaged" or about is None:
        raise UserError(listed.problem)
    if listed.state != "finished" and not unfinished:
        raise UserError(
            f"{path} is not finished ({listed.step:,} of {about.steps:,} agent steps): leave it "
            "out, or pass --unfinished, and the receipt says how far it got"
        )
    run, notes = read_run(listed)
    if notes:
        raise UserError(f"{path} is damaged: {notes[0]}")
    result = find_result(path, about, checkpoint)
    if run.finished and result is None:
        raise UserError(
            f"{path / results.FILE} is not the evaluation of the newest checkpoint: evaluate the "
            f"run again with 'tokenworlds evaluate {path}'"
        )
    if run.score is None and result is None:
        raise UserError(f"{path} has no score yet: it was not evaluated")
    document = files.read_json(path, RUN, LONGEST_RUN)
    return Source(path, run, about, document, result, listed.step)


def find_result(path: Path, about: Description, checkpoint: str) -> Result | None:
    """The evaluation of a checkpoint with the most episodes, as the recipe evaluates.

    Opening the checkpoint notices a run.json that was changed.
    """
    # It needs torch.
    from tokenworlds.runs.folder import RunFolder

    folder = RunFolder.open(path)
    folder.newest()
    manifest = folder.chosen(checkpoint).checkpoint.manifest
    wanted = (about.recipe, about.size, about.env, about.protocol, about.seed, about.temperature)
    final = results.read_result(path / results.FILE)
    if final is not None and inputs(final) != wanted:
        raise UserError(f"{path / results.FILE} is the evaluation of another run")
    others = [results.read_result(file) for file in other_evaluations(path)]
    fitting = [
        result
        for result in (final, *others)
        if result is not None and inputs(result) == wanted and result.checkpoint == manifest
    ]
    if not fitting and checkpoint == BEST:
        raise UserError(
            f"{path} has no evaluation of its best checkpoint: make one with 'tokenworlds "
            f"evaluate {path} --checkpoint best'"
        )
    return max(fitting, key=lambda result: len(result.returns), default=None)


def inputs(result: Result) -> tuple[object, ...]:
    return (
        result.recipe, result.size, result.env, result.protocol, result.seed, result.temperature
    )  # fmt: skip


def other_evaluations(path: Path) -> list[Path]:
    """Files of evaluations/ with returns; `world-` files measure the world model."""
    found = sorted((path / results.FOLDER).glob("*.json"))
    return [file for file in found if not file.name.startswith("world-")]


def make_receipt(group: Sequence[Source], checkpoint: str, usual: Usual) -> Receipt:
    group = sorted(group, key=lambda source: source.about.seed)
    check_alike(group)
    about = group[0].about
    machines: list[dict[str, Any]] = []
    seeds = []
    for source in group:
        machine = machine_of(source)
        if machine not in machines:
            machines.append(machine)
        seeds.append(seed_result(source, machines.index(machine)))
    return Receipt(
        recipe=about.recipe,
        size=about.size,
        env=about.env,
        protocol=about.protocol,
        steps=about.steps,
        temperature=about.temperature,
        checkpoint=checkpoint,
        settings=settings_hash(about.settings),
        changes=changes_of(about, usual),
        parameters=about.parameters,
        tuned_on=about.env in TUNED_ON,
        references=references_of(about),
        machines=tuple(machines),
        seeds=tuple(seeds),
    )


def check_alike(group: Sequence[Source]) -> None:
    first = group[0]
    for other in group[1:]:
        both = f"{first.path} and {other.path}"
        for name, words in ALIKE.items():
            one, two = getattr(first.about, name), getattr(other.about, name)
            if one != two:
                raise UserError(
                    f"{both} cannot share a receipt: their {words} differ ({one} and {two}): make "
                    "a receipt of each"
                )
        if paths := differing(first.about.settings, other.about.settings):
            raise UserError(
                f"{both} cannot share a receipt: their settings differ ({', '.join(paths[:3])}): "
                "make a receipt of each"
            )
    for one, two in itertools.pairwise(group):
        if one.about.seed == two.about.seed:
            raise UserError(f"{one.path} and {two.path} have the same seed, {one.about.seed}")


def seed_result(source: Source, machine: int) -> SeedResult:
    run, result, timing = source.run, source.result, source.run.timing
    played: dict[str, Any]
    if result is None:
        played = {"evaluated": DURING, "score": last_evaluation(source), "step": run.step}
    else:
        played = {
            "evaluated": AFTER,
            "checkpoint_sha256": result.checkpoint,
            "score": result.score,
            "step": result.agent_steps,
            "returns": result.returns,
            "random": result.random_score,
            "crafter": result.crafter,
            "random_crafter": result.random_crafter,
        }
    return SeedResult(
        seed=source.about.seed,
        finished=run.finished,
        steps=source.reached,
        hours=timing.hours if timing and timing.steps > 0 else None,
        command=source.about.command,
        machine=machine,
        curve=thinned(run, result),
        **played,
    )


def last_evaluation(source: Source) -> Score:
    """The mean is logged without its error."""
    events, _ = read_events_with(source.path, (EPISODES,))
    episodes = int(events[-1][EPISODES]) if events else 0
    return Score(float(source.run.score or 0.0), None, episodes)


def thinned(run: Run, result: Result | None) -> Curve:
    """The evaluations of a run, or the smoothed episodes of its training, at few steps."""
    kind = (
        "evaluation" if len(run.evaluation.steps) > 1 or not len(run.training.steps) else "training"
    )
    points = curve_points(run, kind)
    # The evaluation that counts replaces one during training at the same step.
    by_step = dict(zip(points.steps.tolist(), points.values.tolist(), strict=True))
    if result is not None and kind == "evaluation":
        by_step[result.agent_steps] = result.score.mean
    steps = sorted(by_step)
    kept = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), POINTS)).round().astype(int))
    chosen = [steps[index] for index in kept]
    return Curve(of=kind, steps=tuple(chosen), returns=tuple(by_step[step] for step in chosen))


def machine_of(source: Source) -> dict[str, Any]:
    """Versions, commit, hardware and how the run computed; None where run.json does not say."""
    run = source.document["run"]
    found = {name: source.about.machine.get(name) for name in MACHINE}
    return {**found, **{name: run.get(name) for name in COMPUTING}}


def changes_of(about: Description, usual: Usual) -> tuple[str, ...]:
    """The settings after --set that make a difference to a score.

    A fork also has those of its parents, whose commands it does not know.
    """
    words, inside, found = shlex.split(about.command), False, []
    if "--from" in words and (recipe := usual(about)) is not None:
        return changed_settings(about.settings, recipe)
    for word in words:
        if word.startswith("--"):
            inside = word == "--set"
        elif inside and not word.startswith(UNLIKE):
            found.append(word)
    return tuple(sorted(found))


def changed_settings(settings: Mapping[str, Any], recipe: Mapping[str, Any]) -> tuple[str, ...]:
    own = stated(settings)
    found = (path for path in differing(recipe, settings) if path in own)
    return tuple(sorted(f"{path}={own[path]}" for path in found))


def references_of(about: Description) -> dict[str, Any]:
    if about.family == "atari" and (found := reference_sets()[REFERENCES].get(about.task)):
        return {"set": REFERENCES, "random": found.random, "human": found.human}
    if about.family == "toy":
        from tokenworlds.envs.catalogue import best_return

        best = best_return(about.env)
        return {} if best is None else {"best": best}
    return {}


def write_receipt(folder: Path, receipt: Receipt) -> tuple[Path, Receipt]:
    """Write a receipt, with the other seeds of the one that is there; returns what was written."""
    path = folder / receipt.place
    if path.exists():
        receipt = joined(read_receipt(path), receipt, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return files.replace_file(path, to_text(receipt).encode()), receipt


def joined(before: Receipt, receipt: Receipt, path: Path) -> Receipt:
    """A receipt and the seeds that only an earlier one has, which may be of other machines."""
    new = {seed.seed for seed in receipt.seeds}
    kept = [seed for seed in before.seeds if seed.seed not in new]
    if not kept:
        return receipt
    if to_text(replace(before, machines=(), seeds=())) != to_text(
        replace(receipt, machines=(), seeds=())
    ):
        raise UserError(
            f"{path} has seed {kept[0].seed}, whose settings differ from those of these runs: name "
            "new runs of all seeds, or choose another folder with --out"
        )
    machines, seeds = list(receipt.machines), list(receipt.seeds)
    for seed in kept:
        machine = before.machines[seed.machine]
        if machine not in machines:
            machines.append(machine)
        seeds.append(replace(seed, machine=machines.index(machine)))
    seeds.sort(key=lambda seed: seed.seed)
    return replace(receipt, machines=tuple(machines), seeds=tuple(seeds))
