"""Published scores as data, with their sources: see SOURCES.md in this package.

`tables` gives whole tables of papers and released files, `scores` their numbers one by one,
`per_seed` the scores of runs, and `for_run` what a run of a recipe is compared with.
"""

from tokenworlds.published.catalogue import Paper, Protocol, Table, agent_names, benchmarks, tables
from tokenworlds.published.lookup import Score, agents_of, for_run, per_seed, scores
from tokenworlds.published.references import Reference, reference_sets

__all__ = [
    "Paper",
    "Protocol",
    "Reference",
    "Score",
    "Table",
    "agent_names",
    "agents_of",
    "benchmarks",
    "for_run",
    "per_seed",
    "reference_sets",
    "scores",
    "tables",
]
