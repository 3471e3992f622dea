"""`tokenworlds sweep`."""

import contextlib
import itertools
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, UseAppendAction, arg

from tokenworlds.commands.options import (
    NO_DEFAULT,
    Assignments,
    Count,
    EnvAssignments,
    Number,
    Protocol,
    Size,
    Switch,
    TrackerOptions,
    default_text,
)
from tokenworlds.commands.train import Train
from tokenworlds.core.errors import UserError, unknown

if TYPE_CHECKING:
    from tokenworlds.runs.spec import RunSpec
    from tokenworlds.sweeps.engine import Engine
    from tokenworlds.sweeps.plan import Job
    from tokenworlds.sweeps.pool import Pool

ENGINES = ("local", "ray")


@dataclass(frozen=True, kw_only=True)
class Sweep(TrackerOptions):
    """Train many agents: every recipe on every environment with every seed.

    Repeat the command to go on: finished runs are skipped, stopped ones resumed exactly, and more
    --steps extend them. 'tokenworlds sweep status DIR' shows a sweep from another terminal."""

    action: Annotated[
        tuple[str, ...], Positional, arg(metavar="[status DIR]"), default_text("start or go on")
    ] = ()
    """'status DIR' prints the table of a sweep."""
    recipes: Annotated[str, arg(metavar="A,B,...")] = "step-vq-m"
    """Recipes, from 'tokenworlds agents' or of your own."""
    envs: Annotated[str, arg(metavar="X,Y,...")] = "catch"
    """Environments or benchmarks, from 'tokenworlds envs'."""
    seeds: Annotated[str, arg(metavar="0-4")] = "0"
    """Seeds and ranges of seeds."""
    size: Size = "nano"
    """Size of the networks and length of the training."""
    steps: Annotated[Count, default_text("the recipe's")] = None
    """Agent steps of each run."""
    grid: Annotated[
        tuple[str, ...], UseAppendAction, NO_DEFAULT, arg(metavar="PATH=V1,V2,...")
    ] = ()
    """A setting with several values; may be repeated, for all combinations."""
    assignments: Assignments = ()
    """Change settings of all runs; may be repeated."""
    protocol: Protocol = ""
    """Protocol of the environments."""
    env_set: EnvAssignments = ()
    """Options of Gymnasium environments, as in frame_skip=4."""
    stop_at_return: Annotated[Number, NO_DEFAULT] = None
    """Stop a run early once an evaluation during training has this mean return."""
    patience: Annotated[Count, NO_DEFAULT] = None
    """Stop a run early after this many evaluations without a better one."""
    engine: Annotated[str, arg(metavar="{local,ray}")] = "local"
    """Where the runs are computed: local is a pool of processes, ray a Ray cluster."""
    address: Annotated[str, default_text("start Ray here"), arg(metavar="A")] = ""
    """A running Ray cluster, as HOST:PORT, or auto for one of which this machine is a node."""
    cpus_per_run: Annotated[Count, default_text("threads")] = None
    """CPU cores that are set aside for each run."""
    gpus_per_run: Annotated[Number, default_text("0")] = None
    """GPUs of each run, with --engine ray or --slurm; with Ray and 0.25 four runs share a card."""
    jobs: Annotated[Count, default_text("cores / cpus-per-run, as long as memory lasts")] = None
    """Runs at a time."""
    threads: Count = 1
    """CPU threads of each run."""
    runs: Annotated[str, arg(metavar="DIR")] = "runs/sweep"
    """Folder of the sweep; for a Ray cluster on storage that all nodes share."""
    dry_run: Switch = False
    """Print the runs, what each needs, and hours and disk of the whole; train nothing."""
    slurm: Switch = False
    """Write a script for a SLURM array, a task for each run, and train nothing."""

    def execute(self) -> int:
        from tokenworlds.commands.choices import choose_run
        from tokenworlds.sweeps.plan import check_names
        from tokenworlds.training.trackers.choice import open_trackers

        if self.action:
            return self.status()
        self.check_engine()
        # Nodes of a cluster have other working folders.
        here = self.engine == "local" and not self.slurm
        folder = Path(self.runs) if here else Path(self.runs).absolute()
        trainings = list(self.trainings())
        open_trackers(self.trackers)
        also = tuple(f"--{name}" for name in self.trackers)
        jobs = [replace(job_of(train, point), also=also) for train, point in trainings]
        check_names(jobs)
        # Seeds change nothing that could be wrong.
        specs: dict[Train, RunSpec] = {}
        for train, _ in trainings:
            if (same := same_seed(train)) not in specs:
                specs[same] = choose_run(same)
        if self.dry_run:
            from tokenworlds.commands.sweep_plan import print_plan

            each = [replace(specs[same_seed(train)], seed=train.seed) for train, _ in trainings]
            return print_plan(jobs, each, folder, None if self.address else self.at_a_time())
        return self.write_slurm(jobs, folder) if self.slurm else self.train(jobs, folder)

    def check_engine(self) -> None:
        if self.engine not in ENGINES:
            raise unknown("engine", self.engine, ENGINES)
        if self.slurm and self.engine != "local":
            raise UserError("--slurm needs no engine: leave out --engine ray")
        if self.address and self.engine != "ray":
            raise UserError("--address needs --engine ray")
        if self.gpus_per_run and self.engine != "ray" and not self.slurm:
            raise UserError("--gpus-per-run needs --engine ray or --slurm")
        if (self.gpus_per_run or 0.0) < 0.0:
            raise UserError(f"--gpus-per-run takes a number of 0 or more, not {self.gpus_per_run}")

    def status(self) -> int:
        from tokenworlds.commands.sweep_table import table_lines
        from tokenworlds.sweeps.plan import read_plan
        from tokenworlds.sweeps.status import rows

        if len(self.action) != 2 or self.action[0] != "status":
            raise UserError(f"write 'sweep status DIR', not 'sweep {' '.join(self.action)}'")
        folder = Path(self.action[1])
        print("\n".join(table_lines(rows(read_plan(folder), folder))))
        return 0

    def trainings(self) -> "Iterator[tuple[Train, tuple[str, ...]]]":
        """Every run with its point of the grid; the seeds of a point one after the other."""
        from tokenworlds.sweeps.plan import parse_grid, parse_seeds

        recipes, envs = names(self.recipes), with_benchmarks(names(self.envs))
        points, seeds = parse_grid(self.grid), parse_seeds(self.seeds)
        for recipe, env, point, seed in itertools.product(recipes, envs, points, seeds):
            yield (
                Train(
                    recipe=recipe,
                    env=env,
                    size=self.size,
                    steps=self.steps,
                    seed=seed,
                    assignments=(*self.assignments, point) if point else self.assignments,
                    threads=self.threads,
                    protocol=self.protocol,
                    env_set=self.env_set,
                    stop_at_return=self.stop_at_return,
                    patience=self.patience,
                ),
                point,
            )

    def write_slurm(self, jobs: "Sequence[Job]", folder: Path) -> int:
        from tokenworlds.sweeps.plan import write_plan
        from tokenworlds.sweeps.slurm import Resources, write_script

        gpus = self.gpus_per_run or 0.0
        threads, cpus = self.threads or 1, self.cpus
        resources = Resources(threads=threads, cpus=cpus, gpus=gpus, jobs=self.jobs)
        path = write_script(folder, jobs, resources)
        write_plan(folder, jobs)
        print(f"{len(jobs)} runs: sbatch --time=HH:MM:SS {shlex.quote(str(path))}")
        return 0

    def at_a_time(self) -> int:
        from tokenworlds.evaluation.processes import cores

        return self.jobs or max(cores() // self.cpus, 1)

    @property
    def cpus(self) -> int:
        return self.cpus_per_run or self.threads or 1

    def train(self, jobs: "Sequence[Job]", folder: Path) -> int:
        from tokenworlds.commands.running import Interruption
        from tokenworlds.commands.sweep_table import open_table
        from tokenworlds.sweeps.plan import write_plan
        from tokenworlds.sweeps.pool import Pool

        write_plan(folder, jobs)
        interruption = Interruption()
        with (
            open_table(jobs, folder) as table,
            contextlib.closing(self.open_engine(folder, table.note)) as engine,
            interruption.listening(table.stopping),
        ):
            pool = Pool(jobs, folder, engine, table.changed)
            pool.run(interruption, lambda: table.show(pool.entries))
        return print_end(pool, folder, interruption.exit_code)

    def open_engine(self, folder: Path, note: "Callable[[str], None]") -> "Engine":
        from tokenworlds.sweeps.cluster.connection import Settings
        from tokenworlds.sweeps.cluster.engine import RayEngine
        from tokenworlds.sweeps.engine import LocalEngine
        from tokenworlds.sweeps.plan import LOGS

        if self.engine == "local":
            return LocalEngine(self.at_a_time(), self.threads or 1)
        settings = Settings(
            address=self.address,
            cpus=float(self.cpus),
            gpus=self.gpus_per_run or 0.0,
            threads=self.threads or 1,
            place=str(Path.cwd()),
        )
        return RayEngine(settings, folder / LOGS, self.jobs, note)


def job_of(train: Train, point: tuple[str, ...]) -> "Job":
    from tokenworlds.recipes.catalogue import is_own
    from tokenworlds.sweeps.plan import Job, folder_name

    own = ("--recipe", train.recipe) if is_own(train.recipe) else ()
    return Job(
        name=folder_name(train.recipe, train.env, point, train.seed),
        command=train.command(),
        steps=train.steps,
        again=(*own, "--env", train.env),
    )


def same_seed(train: Train) -> Train:
    return replace(train, seed=0)


def print_end(pool: "Pool", folder: Path, interrupted: int) -> int:
    """How a sweep ended; returns the exit code, 1 if a run failed."""
    states = Counter(entry.state for entry in pool.entries)
    print(", ".join(f"{count} {state}" for state, count in states.items()) + f" in {folder}")
    failed = [entry for entry in pool.entries if entry.state == "failed"]
    for entry in failed:
        print(f"tokenworlds: {entry.job.name} failed: {entry.reason}", file=sys.stderr)
    if interrupted:
        print("Repeat the command to go on.")
        return interrupted
    return 1 if failed else 0


def names(text: str) -> list[str]:
    found = [word.strip() for word in text.split(",") if word.strip()]
    if not found:
        raise UserError(f"{text!r} names nothing: separate names by commas")
    return list(dict.fromkeys(found))


def with_benchmarks(found: Sequence[str]) -> list[str]:
    """The environments, with a benchmark's name replaced by its tasks."""
    from tokenworlds.evaluation.benchmarks import BENCHMARKS

    tasks = (BENCHMARKS[name].tasks if name in BENCHMARKS else (name,) for name in found)
    return list(dict.fromkeys(itertools.chain.from_iterable(tasks)))
