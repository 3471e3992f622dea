"""`tokenworlds report`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

from tokenworlds.commands.errors import check_output
from tokenworlds.commands.options import NO_DEFAULT, Switch
from tokenworlds.core.errors import UserError, unknown


@dataclass(frozen=True, kw_only=True)
class Report:
    """Compare runs on one page: curves, scores, aggregates with intervals, cost, commands.

    Writes the page, and a Markdown and a CSV table beside it."""

    runs: Annotated[tuple[str, ...], Positional, NO_DEFAULT, arg(metavar="RUN ...")] = ()
    """Run folders, folders of runs, files {game: [score per seed]}, Crafter's stats.jsonl."""
    out: Annotated[str, arg(metavar="FILE.html")] = "report.html"
    """Page to write."""
    references: Annotated[str, arg(metavar="SET")] = "exact"
    """Random and human scores for Atari games: exact, rounded, git-storm or dqn-2015."""
    published: Annotated[tuple[str, ...], UseAppendAction, NO_DEFAULT, arg(metavar="AGENT")] = ()
    """Published agent to show besides those of the runs' papers; may be repeated."""
    export: Annotated[str, arg(metavar="FILE.json"), NO_DEFAULT] = ""
    """Also write {agent: {game: [score per seed]}}, for rliable and other tools."""
    mix_protocols: Switch = False
    """Compare scores of different protocols or training lengths; the page says so."""

    def execute(self) -> int:
        from tokenworlds.published.references import reference_sets

        out = check_output(Path(self.out), [".html"])
        if (out.parent / "run.json").exists():
            raise UserError(
                f"{out} is inside a run folder, which has its own report: choose another"
            )
        if self.export:
            check_output(Path(self.export), [".json"])
        if not self.runs:
            raise UserError("name the runs to report: run folders, folders of runs or score files")
        if self.references not in reference_sets():
            raise unknown("reference set", self.references, reference_sets())
        from tokenworlds.evaluation.comparison.document import write_comparison
        from tokenworlds.evaluation.comparison.grouping import final_scores, group
        from tokenworlds.evaluation.comparison.literature import check_names
        from tokenworlds.evaluation.comparison.loading import load
        from tokenworlds.evaluation.comparison.summary import summarise
        from tokenworlds.evaluation.exchange import write_algorithms

        check_names(self.published)
        loaded = load(self.runs)
        comparisons, repeated = group(loaded.runs, self.mix_protocols)
        notes = [*loaded.notes, *repeated]
        summaries = [
            summarise(comparison, self.references, self.published) for comparison in comparisons
        ]
        written = write_comparison(out, summaries, notes)
        for text in (*notes, *(remark for summary in summaries for remark in summary.remarks)):
            print(f"note: {text}", file=sys.stderr)
        print(f"page    {written.page}\ntables  {written.markdown}, {written.csv}")
        if self.export:
            print(f"scores  {write_algorithms(Path(self.export), final_scores(comparisons))}")
        return 0
