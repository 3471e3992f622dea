"""A sweep as a SLURM array: one task for each run, which begins or resumes it."""

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenworlds.core import files
from tokenworlds.core.errors import UserError
from tokenworlds.sweeps.plan import LOGS, Job, next_step, training

FILE = "sweep.sbatch"
WARNING = 120
"""Seconds before the time limit at which SLURM warns a task."""
HEAD = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --array=0-{last}{limit}
#SBATCH --cpus-per-task={cpus}{gpus}
#SBATCH --requeue
#SBATCH --signal=B:USR1@{warning}
#SBATCH --output={logs}
#SBATCH --open-mode=append

# Submit with: sbatch --time=HH:MM:SS {script}
# A task resumes its run exactly if the folder holds one, so it may be requeued at any time.
export OMP_NUM_THREADS={threads}
cd {place} || exit
tokenworlds=({python} -m tokenworlds)

case $SLURM_ARRAY_TASK_ID in
"""
TAIL = """\
*) echo "this sweep has no run $SLURM_ARRAY_TASK_ID" >&2; exit 2 ;;
esac

if [ -e "$run/run.json" ]; then
    "${tokenworlds[@]}" "${resume[@]}" >>"$log" 2>&1 &
else
    "${tokenworlds[@]}" "${train[@]}" >>"$log" 2>&1 &
fi
child=$!

# Before the time limit: save and queue again. When the task is cancelled or preempted: save.
requeue=
trap 'requeue=1; signalled=1; kill -TERM "$child"' USR1
trap 'signalled=1; kill -TERM "$child"' TERM INT

# A signal ends a wait before the run has ended.
signalled=1
while [ -n "$signalled" ]; do
    signalled=
    wait "$child"
    code=$?
done
if [ -n "$requeue" ] && [ "$code" -ne 0 ]; then
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
fi
exit "$code"
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """What SLURM sets aside for a run; `jobs` runs at a time, or as many as there is room for."""

    threads: int = 1
    cpus: int = 1
    gpus: float = 0.0
    jobs: int | None = None


def write_script(folder: Path, jobs: Sequence[Job], resources: Resources) -> Path:
    """Write the script to the folder of a sweep, whose path must be absolute."""
    path = folder / FILE
    # SLURM appends what tasks print, but makes no folders.
    files.make_folder(folder / LOGS)
    files.replace_file(path, script(folder, jobs, resources).encode())
    return path


def script(folder: Path, jobs: Sequence[Job], resources: Resources) -> str:
    if resources.gpus != int(resources.gpus):
        raise UserError(f"--slurm takes whole GPUs, not --gpus-per-run {resources.gpus:g}")
    head = HEAD.format(
        name=shlex.quote(folder.name),
        last=len(jobs) - 1,
        limit=f"%{resources.jobs}" if resources.jobs else "",
        cpus=resources.cpus,
        gpus=f"\n#SBATCH --gpus-per-task={resources.gpus:.0f}" if resources.gpus else "",
        warning=WARNING,
        logs=shlex.quote(str(folder / LOGS / "slurm-%A-%a.log")),
        script=shlex.quote(str(folder / FILE)),
        threads=resources.threads,
        place=shlex.quote(os.getcwd()),
        python=shlex.quote(sys.executable),
    )
    return head + "".join(case(i, job, folder) for i, job in enumerate(jobs)) + TAIL


def case(index: int, job: Job, folder: Path) -> str:
    """The variables of a task."""
    path = folder / job.name
    begun = next_step(job, folder)
    resume = begun.words if begun.kind == "resume" else ("resume", str(path), *job.again, *job.also)
    return (
        f"{index})\n"
        f"    run={shlex.quote(str(path))}\n"
        f"    log={shlex.quote(str(folder / LOGS / f'{job.name}.log'))}\n"
        f"    train=({shlex.join(training(job, path))})\n"
        f"    resume=({shlex.join(resume)})\n"
        "    ;;\n"
    )
