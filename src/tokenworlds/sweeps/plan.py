"""The plan of a sweep: which runs, in which folders, and what each of them needs next."""

import itertools
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tokenworlds.core import files
from tokenworlds.core.errors import UserError
from tokenworlds.core.files import DamagedFile
from tokenworlds.evaluation.comparison.listing import Listed, list_run

FILE = "sweep.json"
LOGS = "logs"
LONGEST = 2**24
MOST_RUNS = 100_000
SEEDS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
STEPS = "--steps"
Next = Literal["train", "resume", "wait", "nothing"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A run of a sweep: the name of its folder, and the command that makes it.

    `again` are options that `resume` needs, to name the user's own files once more, `also` those
    that change nothing of the run.
    """

    name: str
    command: str
    steps: int | None = None
    again: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What a run needs next, with the words of the command."""

    kind: Next
    words: tuple[str, ...] = ()


def parse_seeds(text: str) -> list[int]:
    """The seeds of `0-4,7`: 0, 1, 2, 3, 4, 7."""
    seeds: list[int] = []
    for part in text.split(","):
        found = SEEDS.fullmatch(part.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last or last - first >= MOST_RUNS:
            raise UserError(f"--seeds takes numbers and ranges such as 0-4,7, not {text!r}")
        seeds += range(first, last + 1)
    return list(dict.fromkeys(seeds))


def parse_grid(words: Sequence[str]) -> list[tuple[str, ...]]:
    """All combinations of `key=v1,v2`, each as assignments; commas inside brackets do not split."""
    axes = []
    for word in words:
        key, equals, values = word.partition("=")
        if not key or not equals or not values:
            raise UserError(f"--grid takes PATH=VALUE,VALUE,..., not {word!r}")
        axes.append([f"{key}={value}" for value in split(values)])
    return list(itertools.product(*axes))


def split(values: str) -> list[str]:
    """Values between commas that are not inside brackets."""
    parts, depth = [""], 0
    for character in values:
        depth += (character in "[{") - (character in "]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def folder_name(recipe: str, env: str, changes: Sequence[str], seed: int) -> str:
    """As `train` names a run, with the changes of a grid between environment and seed."""
    recipe = recipe.rpartition(":")[2].replace("_", "-")
    words = [recipe, env.removeprefix("toy:"), *(short(change) for change in changes), f"s{seed}"]
    return re.sub(r"[^\w.=+-]+", "-", "-".join(words))


def short(change: str) -> str:
    """`codes=64` for `world.tokenizer.codes=64`."""
    path, _, value = change.partition("=")
    return f"{path.rpartition('.')[2]}={value}"


def check_names(jobs: Sequence[Job]) -> None:
    """Raise `UserError` if two runs would share a folder."""
    seen: dict[str, Job] = {}
    for job in jobs:
        if job.name in seen:
            raise UserError(
                f"two runs of this sweep would share the folder {job.name}: "
                f"'{seen[job.name].command}' and '{job.command}'"
            )
        seen[job.name] = job


def write_plan(folder: Path, jobs: Sequence[Job]) -> None:
    """Keep the plan for `sweep status`."""
    files.make_folder(folder)
    document = {"jobs": [asdict(job) for job in jobs]}
    files.replace_file(folder / FILE, (json.dumps(document, indent=1) + "\n").encode())


def read_plan(folder: Path) -> list[Job]:
    if not (folder / FILE).is_file():
        raise UserError(f"{str(folder)!r} holds no sweep: there is no {FILE}")
    document = files.read_json(folder, FILE, LONGEST)
    try:
        return [read_job(entry) for entry in document["jobs"]]
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(folder / FILE, f"it describes no sweep ({error!r:.80})") from None


def read_job(entry: Mapping[str, Any]) -> Job:
    name, command = str(entry["name"]), str(entry["command"])
    if name != Path(name).name or name in ("", "..", "."):
        raise ValueError(f"{name!r:.40} is no name of a folder")
    return Job(name=name, command=command)


def next_step(job: Job, folder: Path) -> Step:
    """What a run needs: to begin, to go on, to be waited for, or nothing.

    `UserError` if the folder holds another run than the job's, or a damaged one.
    """
    path = folder / job.name
    if not path.is_dir() or not any(path.iterdir()):
        return Step("train", training(job, path))
    listed = list_run(path)
    if listed.state == "running":
        return Step("wait")
    if listed.state == "damaged":
        raise UserError(listed.problem)
    if not (path / "run.json").exists():
        return Step("train", training(job, path))
    longer = extension(job, listed)
    if listed.state == "finished" and not longer:
        return Step("nothing")
    return Step("resume", ("resume", str(path), *longer, *job.again, *job.also))


def training(job: Job, path: Path) -> tuple[str, ...]:
    return (*shlex.split(job.command)[1:], "--run", str(path), *job.also)


def extension(job: Job, listed: Listed) -> tuple[str, ...]:
    """The option that extends a run to the job's steps, if it has fewer."""
    about = listed.description
    made = "" if about is None else about.command
    if without_steps(made) != without_steps(job.command):
        raise UserError(
            f"{listed.path} holds another run, made by '{made}': choose another folder with --runs"
        )
    if about is None or job.steps is None or about.steps == job.steps:
        return ()
    if about.steps > job.steps:
        raise UserError(f"{listed.path} has {about.steps:,} steps, more than {job.steps:,}")
    return (STEPS, str(job.steps))


def without_steps(command: str) -> list[str]:
    """The words of a command without `--steps N`."""
    words = shlex.split(command)
    if STEPS in words:
        place = words.index(STEPS)
        del words[place : place + 2]
    return words
