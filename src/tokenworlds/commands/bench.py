"""`tokenworlds bench`."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from tokenworlds.commands.errors import check_output
from tokenworlds.commands.options import Count, Json, Size, Switch, default_text
from tokenworlds.commands.show import default_env
from tokenworlds.core.errors import UserError

if TYPE_CHECKING:
    from tokenworlds.benchmarking.documents import Account, Circumstances, Document
    from tokenworlds.benchmarking.figures import Plan
    from tokenworlds.benchmarking.scaling import Survey
    from tokenworlds.benchmarking.session import Candidate

RECIPES = ("iris", "delta-iris", "step-vq-t", "step-vq-iris", "step-vq-m")
"""Those of STEP-VQ's figure 2a that there are, and the recipe that is trained by default."""
SCALED = ("step-vq-m", "cb-m")
"""Those of its figure 2b."""
SECONDS, SECONDS_FOR_A_POINT = 10.0, 2.0


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Measure what each update of a recipe costs, its dreams, its acting and its environment."""

    recipes: Annotated[
        tuple[str, ...],
        Positional,
        arg(metavar="[RECIPE ...]"),
        default_text(f"{', '.join(RECIPES)}; with --scaling {', '.join(SCALED)}"),
    ] = ()
    """Names that 'tokenworlds agents' lists, or my_agents.py:mine."""
    env: Annotated[
        str, arg(metavar="ENV"), default_text("atari:Pong if ale-py is there, else catch")
    ] = ""
    """A name as 'tokenworlds envs' has them."""
    size: Size = "paper"
    """How large the networks are."""
    fraction: Annotated[str, arg(metavar="{auto,1,1/2,1/4,...}")] = "auto"
    """Share of each batch that is measured, then scaled; auto takes what fits time and memory."""
    seconds: Annotated[
        float | None,
        arg(metavar="S"),
        default_text(f"{SECONDS:g}; with --scaling {SECONDS_FOR_A_POINT:g}"),
    ] = None
    """How long a figure is repeated; with auto, an update that would take longer is cut down."""
    threads: Annotated[Count, default_text("one for each core")] = None
    """Threads to compute with."""
    profile: Annotated[str, arg(metavar="FILE"), default_text("no trace")] = ""
    """Write a trace of one update of each learner, to be opened at ui.perfetto.dev."""
    compare: Annotated[str, arg(metavar="OLD.json"), default_text("nothing")] = ""
    """What --json printed before, to be compared with."""
    scaling: Switch = False
    """Measure instead how updates grow with batch, length, resolution, codes and horizon."""
    chart: Annotated[str, arg(metavar="FILE.png"), default_text("no picture")] = ""
    """Draw what an environment step of each recipe costs, or how updates grow."""
    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        """Measure one recipe after the other, telling each figure when it is taken."""
        from tokenworlds.core.process import prepare_process

        prepare_process()
        return self.survey() if self.scaling else self.account()

    def account(self) -> int:
        """What each piece of work costs."""
        from tokenworlds.benchmarking.comparison import read_old
        from tokenworlds.benchmarking.documents import to_document
        from tokenworlds.benchmarking.table import heading

        plan, before = self.plan(), read_old(Path(self.compare)) if self.compare else None
        candidates, trace, chart = list(self.candidates()), self.trace(), self.picture()
        circumstances = self.circumstances(candidates)
        self.tell(heading(circumstances))
        accounts = [
            self.measure(candidate, plan, trace, alone=len(candidates) == 1)
            for candidate in candidates
        ]
        document = to_document(circumstances, accounts)
        self.conclude(document, accounts, before)
        if chart is not None:
            self.draw(chart, accounts, circumstances)
        return 0

    def plan(self) -> "Plan":
        """How it is to be measured."""
        from tokenworlds.benchmarking.batches import read_fraction
        from tokenworlds.benchmarking.figures import Plan

        return Plan(self.patience(), read_fraction(self.fraction))

    def patience(self) -> float:
        """Seconds for each figure."""
        if self.seconds is None:
            return SECONDS_FOR_A_POINT if self.scaling else SECONDS
        if not 0 < self.seconds < float("inf"):
            raise UserError(f"--seconds takes a number above 0, not {self.seconds}")
        return self.seconds

    def candidates(self) -> Iterator["Candidate"]:
        """What is to be measured; a mistake in any name is told before the first."""
        from tokenworlds.benchmarking.session import Candidate
        from tokenworlds.commands import choices
        from tokenworlds.envs.spec import EnvSpec

        env = self.env or default_env()
        for name in dict.fromkeys(self.recipes or (SCALED if self.scaling else RECIPES)):
            recipe = choices.choose_recipe(name, self.size, env, ())
            size = choices.OWN if choices.is_own(name) else self.size
            yield Candidate(name, size, recipe, EnvSpec(env, "", recipe.resolution, recipe.grey))

    def trace(self) -> Path | None:
        """Where traces go, if any are asked for."""
        return check_output(Path(self.profile), (".json",)) if self.profile else None

    def picture(self) -> Path | None:
        """Where the chart goes, if one is asked for."""
        return check_output(Path(self.chart), (".png",)) if self.chart else None

    def circumstances(self, candidates: list["Candidate"]) -> "Circumstances":
        """What all figures hold for."""
        import torch

        from tokenworlds.benchmarking.documents import Circumstances
        from tokenworlds.runs.machine import describe_machine

        torch.set_num_threads(self.threads or torch.get_num_threads())
        env, threads = candidates[0].env, torch.get_num_threads()
        return Circumstances(env.name, env.protocol, threads, self.patience(), describe_machine())

    def measure(
        self, candidate: "Candidate", plan: "Plan", trace: Path | None, alone: bool
    ) -> "Account":
        """One recipe."""
        from tokenworlds.benchmarking.profiling import trace_path
        from tokenworlds.benchmarking.session import take_account
        from tokenworlds.benchmarking.table import figure_line, opening, step_lines

        self.tell(opening(candidate.name, candidate.size))
        place = trace and trace_path(trace, candidate.name, alone)
        account = take_account(candidate, plan, lambda f: self.tell(figure_line(f)), place)
        self.tell(*step_lines(account))
        if place is not None:
            self.tell(f"  trace       {place}")
        return account

    def conclude(
        self, document: dict[str, Any], accounts: list["Account"], before: "Document | None"
    ) -> None:
        """Recipes side by side, and against what was measured before."""
        from tokenworlds.benchmarking.comparison import compare, differences
        from tokenworlds.benchmarking.table import change_lines, summary

        self.tell(*summary(accounts))
        if before is not None:
            changes, notes = compare(before, document), differences(before, document)
            self.tell(*change_lines(changes, notes, self.compare))
            document["comparison"] = [asdict(change) for change in changes]
        if self.json:
            print(json.dumps(document, indent=2))

    def draw(self, chart: Path, accounts: list["Account"], circumstances: "Circumstances") -> None:
        """Write the picture."""
        from tokenworlds.benchmarking.chart import write_chart

        title = f"Learning for each environment step ({self.size}, {circumstances.env})"
        self.tell(f"\nchart   {write_chart(chart, accounts, title)}")

    def survey(self) -> int:
        """How the updates of each recipe grow."""
        from tokenworlds.benchmarking.scaling import to_document
        from tokenworlds.benchmarking.scaling_chart import write_chart
        from tokenworlds.benchmarking.table import heading

        self.insist_on_what_is_scaled()
        candidates, chart = list(self.candidates()), self.picture()
        circumstances = self.circumstances(candidates)
        self.tell(heading(circumstances))
        surveys = [self.scale(candidate) for candidate in candidates]
        if chart is not None:
            title = f"How an update grows ({circumstances.env})"
            self.tell(f"\nchart   {write_chart(chart, surveys, title)}")
        if self.json:
            print(json.dumps(to_document(circumstances, surveys), indent=2))
        return 0

    def insist_on_what_is_scaled(self) -> None:
        """Raise if something is asked for that only whole recipes have."""
        others = {"compare": self.compare, "profile": self.profile}
        for name in [name for name, value in others.items() if value]:
            raise UserError(f"--scaling measures single updates and does not go with --{name}")
        if self.fraction != "auto":
            raise UserError("--scaling chooses its batches itself and takes no --fraction")

    def scale(self, candidate: "Candidate") -> "Survey":
        """One recipe, along every axis that it has."""
        from tokenworlds.benchmarking.scaling import Listener, take_survey, update_taker
        from tokenworlds.benchmarking.scaling_table import (
            axis_line,
            growth_lines,
            opening,
            point_line,
        )

        self.tell(opening(candidate))
        listener = Listener(
            axis=lambda axis, path: self.tell(axis_line(axis, path)),
            point=lambda found: self.tell(point_line(found)),
            curve=lambda curve: self.tell(*growth_lines(curve)),
        )
        return take_survey(candidate, update_taker(candidate.env, self.patience()), listener)

    def tell(self, *lines: str) -> None:
        """Say it at once; beside a JSON document only to somebody who watches."""
        if not lines:
            return
        if not self.json:
            print(*lines, sep="\n", flush=True)
        elif sys.stderr.isatty():
            print(*lines, sep="\n", file=sys.stderr, flush=True)
