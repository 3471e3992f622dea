"""Change a run after it began: more steps than it was started with, other threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tokenworlds.core.errors import UserError
from tokenworlds.core.files import DamagedFile
from tokenworlds.core.progress import Progress
from tokenworlds.evaluation.results import FILE, FOLDER, name_of, read_result, write_result
from tokenworlds.runs.checkpoint import explaining_misfits
from tokenworlds.runs.extension import schedule_of
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.spec import Extension, RunSpec
from tokenworlds.training.loop import ended_early
from tokenworlds.training.trainer import progress_of


def extend_run(folder: RunFolder, spec: RunSpec, steps: int, command: str = "") -> RunSpec:
    """Set the agent steps of a whole run; returns the specification with which to resume it.

    run.json records the change with `command`. The result of the shorter run moves to evaluations/.
    A run that had stopped early goes on, without the rule that stopped it.
    """
    before = spec.recipe.steps
    if steps < before:
        raise UserError(f"{folder.path} has {before:,} steps: extend it to more, not {steps:,}")
    with locked(folder):
        newest = folder.newest().checkpoint
        ended = ended_early(spec, newest)
        if steps == before and not ended:
            return spec
        with explaining_misfits(newest):
            progress = progress_of(newest)
        spec = replace(
            spec,
            recipe=replace(spec.recipe, steps=steps),
            extended=extension_at(progress, schedule_of(spec).step(progress)),
            stop=None if ended else spec.stop,
        )
        keep_result(folder, spec.recipe.evaluation.temperature)
        folder.change(spec, command, progress.steps)
        (folder.path / FILE).unlink(missing_ok=True)
    return spec


def change_threads(folder: RunFolder, spec: RunSpec, threads: int, command: str = "") -> RunSpec:
    """Continue a run with another number of CPU threads; run.json records the change.

    Sums depend on the number, so the run does not repeat an uninterrupted one.
    """
    with locked(folder):
        newest = folder.newest().checkpoint
        with explaining_misfits(newest):
            steps = progress_of(newest).steps
        spec = replace(spec, threads=threads)
        folder.change(spec, command, steps)
    return spec


@contextmanager
def locked(folder: RunFolder) -> Iterator[None]:
    folder.lock()
    try:
        yield
    finally:
        folder.unlock()


def extension_at(progress: Progress, step: int) -> Extension:
    return Extension(step=step, steps=progress.steps, updates=dict(progress.updates))


def keep_result(folder: RunFolder, temperature: float) -> None:
    """Copy the final result of the run so far to evaluations/."""
    try:
        result = read_result(folder.path / FILE)
    except DamagedFile:
        return
    if result is not None:
        (folder.path / FOLDER).mkdir(exist_ok=True)
        write_result(folder.path / FOLDER / name_of(result, temperature), result)
