"""`tokenworlds literature`."""

import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from tokenworlds.commands.options import NO_DEFAULT, Json, Switch
from tokenworlds.core.errors import UserError, unknown

if TYPE_CHECKING:
    from tokenworlds.evaluation.literature import Selection


@dataclass(frozen=True, kw_only=True)
class Literature:
    """Show published scores of a benchmark, with their sources and protocols."""

    benchmark: Annotated[str, Positional, NO_DEFAULT, arg(metavar="[BENCHMARK]")] = ""
    """As atari100k, crafter-1m or dmc-vision; without one, list what there is."""
    game: Annotated[str, NO_DEFAULT, arg(metavar="GAME")] = ""
    """Scores of all agents in one game or task."""
    agent: Annotated[str, NO_DEFAULT, arg(metavar="AGENT")] = ""
    """Scores of one agent in all games."""
    references: Annotated[str, arg(metavar="{exact,rounded,...}")] = "exact"
    """Random and human scores to normalise with."""
    json: Json = False
    """Print one JSON document."""
    csv: Switch = False
    """Print comma-separated values, a line for each score and aggregate."""

    def execute(self) -> int:
        from tokenworlds.commands.literature_view import show_benchmarks, show_selection

        if self.json and self.csv:
            raise UserError("--json and --csv exclude each other: choose one")
        if not self.benchmark:
            self.refuse_filters()
            print_document(benchmark_entries()) if self.json else show_benchmarks()
            return 0
        selection = self.selection()
        if self.json:
            print_document(selection.document())
        elif self.csv:
            print_csv(selection.records())
        else:
            show_selection(selection)
        return 0

    def refuse_filters(self) -> None:
        """Without a benchmark there is only the list of benchmarks."""
        given = {"--game": self.game, "--agent": self.agent, "--csv": self.csv}
        for option, value in given.items():
            if value:
                raise UserError(f"{option} needs a benchmark: tokenworlds literature atari100k")

    def selection(self) -> "Selection":
        from tokenworlds.evaluation.literature import Selection
        from tokenworlds.published import agent_names, benchmarks, tables

        if self.benchmark not in benchmarks():
            raise unknown("benchmark", self.benchmark, benchmarks())
        found = tables(self.benchmark)
        agents = sorted({agent for table in found for agent in table.agents})
        tasks = sorted(
            {task for table in found for name in table.agents for task in table.means(name)}
        )
        spelled = {agent_names()[agent].lower(): agent for agent in agents}
        agent = spelled.get(self.agent.lower(), self.agent)
        return Selection(
            self.benchmark,
            match("agent", agent, agents),
            match("game", self.game.rpartition(":")[2], tasks),
            self.references,
        )


def match(kind: str, value: str, allowed: list[str]) -> str | None:
    """The allowed name in any case of letters; None if none was given."""
    if not value:
        return None
    for name in allowed:
        if name.lower() == value.lower():
            return name
    raise unknown(kind, value, allowed)


def benchmark_entries() -> list[dict[str, Any]]:
    from tokenworlds.evaluation.literature import contents

    return [{"benchmark": name, **entry} for name, entry in contents().items()]


def print_document(document: Any) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))


def print_csv(records: Iterator[dict[str, Any]]) -> None:
    writer: csv.DictWriter[str] | None = None
    for record in records:
        if writer is None:
            writer = csv.DictWriter(sys.stdout, list(record), lineterminator="\n")
            writer.writeheader()
        writer.writerow(record)
