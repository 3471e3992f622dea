"""`tokenworlds bench`."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from tokenworlds.commands.errors import check_output
from tokenworlds.commands.options import (
    Count,
    Env,
    EnvAssignments,
    Json,
    Size,
    Switch,
    default_text,
)
from tokenworlds.core.errors import UserError

if TYPE_CHECKING:
    from tokenworlds.benchmarking.measurement import Plan
    from tokenworlds.benchmarking.report import BenchEnvironment, BenchReport, Target
    from tokenworlds.benchmarking.scaling import ScalingReport

RECIPES = ("iris", "delta-iris", "step-vq-t", "step-vq-iris", "step-vq-m")
"""The recipes of STEP-VQ's figure 2a, and the default recipe of `train`."""
SCALED = ("step-vq-m", "cb-m")
"""The recipes of STEP-VQ's figure 2b."""
COUNTING = "TOKENWORLDS_COUNTING"
"""Set in the process that counts launches."""
SECONDS, SECONDS_PER_POINT = 10.0, 2.0


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Measure the cost of a recipe: updates, dreams, acting and environment steps."""

    recipes: Annotated[
        tuple[str, ...],
        Positional,
        arg(metavar="[RECIPE ...]"),
        default_text(f"{', '.join(RECIPES)}; with --scaling {', '.join(SCALED)}"),
    ] = ()
    """Names from 'tokenworlds agents', or my_agents.py:mine."""
    env: Env = "catch"
    """A name from 'tokenworlds envs'."""
    env_set: EnvAssignments = ()
    """Options of a Gymnasium environment, from 'tokenworlds envs', as in frame_skip=4."""
    size: Size = "nano"
    """Size of the networks."""
    fraction: Annotated[str, arg(metavar="{auto,1,1/2,1/4,...}")] = "auto"
    """Fraction of each batch to run, then extrapolated; auto takes what fits time and memory."""
    seconds: Annotated[
        float | None,
        arg(metavar="S"),
        default_text(f"{SECONDS:g}; with --scaling {SECONDS_PER_POINT:g}"),
    ] = None
    """Time limit of the repeats of each measurement; with auto, also of a single update."""
    threads: Annotated[Count, default_text("one per core")] = None
    """Number of CPU threads."""
    profile: Annotated[str, arg(metavar="FILE"), default_text("no trace")] = ""
    """Write a trace of one update of each learner, to open at ui.perfetto.dev."""
    compare: Annotated[str, arg(metavar="OLD.json"), default_text("no comparison")] = ""
    """Compare with an earlier output of --json."""
    scaling: Switch = False
    """Measure instead how updates scale with batch, length, resolution, vocabulary and horizon."""
    launches: Switch = False
    """Count instead the operations and waits that updates and dream steps would ask of a card."""
    chart: Annotated[str, arg(metavar="FILE.png"), default_text("no chart")] = ""
    """Draw the cost of an environment step of each recipe, or with --scaling the curves."""
    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        if self.launches:
            return self.report_launches()
        return self.report_scaling() if self.scaling else self.report_costs()

    def report_launches(self) -> int:
        """In a process of its own: torch takes up a new device only before its first gradient."""
        from tokenworlds.benchmarking.launches import count_in, to_document
        from tokenworlds.benchmarking.tables import LAUNCH_COLUMNS, launch_lines, row

        self.refuse_with_launches()
        if COUNTING not in os.environ:
            words = [sys.executable, "-m", "tokenworlds", "bench", *self.launch_words()]
            return subprocess.run(words, env={**os.environ, COUNTING: "1"}).returncode
        document = []
        for target in self.targets():
            self.show(f"\n{target.name} ({target.size})", row("", LAUNCH_COLUMNS, LAUNCH_COLUMNS))
            for counted in count_in(target.recipe, target.env):
                self.show(*launch_lines(counted))
                document.append(to_document(target.name, target.size, counted))
        if self.json:
            print(json.dumps({"launches": document}, indent=2))
        return 0

    def launch_words(self) -> list[str]:
        given = [word for group in self.env_set for word in ("--env-set", *group)]
        flags = ["--launches", *(["--json"] if self.json else [])]
        return [*self.recipes, *flags, "--env", self.env, "--size", self.size, *given]

    def refuse_with_launches(self) -> None:
        given = {
            **{"scaling": self.scaling, "compare": self.compare, "profile": self.profile},
            **{"chart": self.chart, "seconds": self.seconds, "threads": self.threads},
        }
        for name, value in given.items():
            if value:
                raise UserError(f"--launches counts and measures nothing: it takes no --{name}")

    def report_costs(self) -> int:
        from tokenworlds.benchmarking import report, tables
        from tokenworlds.benchmarking.measurement import Plan, read_fraction

        plan = Plan(self.time_limit(), read_fraction(self.fraction))
        before = report.read_document(Path(self.compare)) if self.compare else None
        targets, chart = self.targets(), self.output_path(self.chart, ".png")
        trace = self.output_path(self.profile, ".json")
        environment = self.environment(targets)
        self.show(tables.heading(environment))
        several = len(targets) > 1
        reports = [self.measure(target, plan, trace, several) for target in targets]
        self.show(*tables.summary_lines(reports))
        document = report.to_document(environment, reports)
        if before is not None:
            changes = report.compare(before, document)
            notes = report.environment_differences(before, document)
            self.show(*tables.change_lines(changes, notes, self.compare))
            document["comparison"] = [asdict(change) for change in changes]
        if self.json:
            print(json.dumps(document, indent=2))
        if chart is not None:
            from tokenworlds.benchmarking.charts import cost_figure, write_figure

            title = f"Learning per environment step ({self.size}, {environment.env})"
            self.show(f"\nchart   {write_figure(chart, cost_figure(reports, title))}")
        return 0

    def measure(
        self, target: "Target", plan: "Plan", trace: Path | None, several: bool
    ) -> "BenchReport":
        from tokenworlds.benchmarking import report, tables

        self.show(
            f"\n{target.name} ({target.size})", tables.row("", tables.COLUMNS, tables.COLUMNS)
        )
        if trace is not None and several:
            # A trace of several recipes is too large to open.
            name = target.name.rpartition(":")[2]
            trace = trace.with_name(f"{trace.stem}-{name}{trace.suffix}")
        found = report.measure_recipe(
            target, plan, lambda each: self.show(tables.measurement_line(each)), trace
        )
        self.show(*tables.step_lines(found))
        if trace is not None:
            self.show(f"  trace       {trace}")
        return found

    def report_scaling(self) -> int:
        from tokenworlds.benchmarking.scaling import to_document
        from tokenworlds.benchmarking.tables import heading

        self.refuse_unscalable_options()
        targets, chart = self.targets(), self.output_path(self.chart, ".png")
        environment = self.environment(targets)
        self.show(heading(environment))
        reports = [self.scale(target) for target in targets]
        if chart is not None:
            from tokenworlds.benchmarking.charts import scaling_figure, write_figure

            title = f"How an update scales ({environment.env})"
            self.show(f"\nchart   {write_figure(chart, scaling_figure(reports, title))}")
        if self.json:
            print(json.dumps(to_document(environment, reports), indent=2))
        return 0

    def scale(self, target: "Target") -> "ScalingReport":
        from tokenworlds.benchmarking.scaling import measure_scaling, update_meter
        from tokenworlds.benchmarking.tables import base_line, scaling_lines

        self.show(base_line(target))
        meter = update_meter(target.env, self.time_limit())
        return measure_scaling(target, meter, lambda event: self.show(*scaling_lines(event)))

    def refuse_unscalable_options(self) -> None:
        for name, value in {"compare": self.compare, "profile": self.profile}.items():
            if value:
                raise UserError(f"--scaling measures single updates and takes no --{name}")
        if self.fraction != "auto":
            raise UserError("--scaling chooses its own batches and takes no --fraction")

    def time_limit(self) -> float:
        if self.seconds is None:
            return SECONDS_PER_POINT if self.scaling else SECONDS
        if not 0 < self.seconds < float("inf"):
            raise UserError(f"--seconds takes a number above 0, not {self.seconds}")
        return self.seconds

    def targets(self) -> list["Target"]:
        """The recipes to measure; all names are checked before the first measurement."""
        from tokenworlds.benchmarking.report import Target
        from tokenworlds.commands import choices
        from tokenworlds.envs.catalogue import EnvSpec

        env, targets = self.env, list[Target]()
        protocol = choices.protocol_with("", self.env_set)
        for name in dict.fromkeys(self.recipes or (SCALED if self.scaling else RECIPES)):
            found = choices.choose_recipe(name, self.size, env, ())
            spec = EnvSpec(env, protocol, found.recipe.resolution, found.recipe.grey)
            targets.append(Target(name, found.size, found.recipe, spec))
        return targets

    def output_path(self, name: str, suffix: str) -> Path | None:
        return check_output(Path(name), (suffix,)) if name else None

    def environment(self, targets: list["Target"]) -> "BenchEnvironment":
        import torch

        from tokenworlds.benchmarking.report import BenchEnvironment
        from tokenworlds.runs.machine import describe_machine

        torch.set_num_threads(self.threads or torch.get_num_threads())
        env, threads = targets[0].env, torch.get_num_threads()
        machine = describe_machine()
        return BenchEnvironment(env.name, env.protocol, threads, self.time_limit(), machine)

    def show(self, *lines: str) -> None:
        """Print lines at once; with --json to stderr, and only if it is a terminal."""
        if not lines:
            return
        if not self.json:
            print(*lines, sep="\n", flush=True)
        elif sys.stderr.isatty():
            print(*lines, sep="\n", file=sys.stderr, flush=True)
