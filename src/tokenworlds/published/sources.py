"""The list of tables in SOURCES.md: `python -m tokenworlds.published.sources` prints it."""

from collections.abc import Iterator
from itertools import groupby

from tokenworlds.published.catalogue import Paper, Table, tables
from tokenworlds.published.files import read


def page_part() -> str:
    """Reference sets and tables as Markdown."""
    return "\n".join([*reference_lines(), "", "## Tables", *table_lines()]) + "\n"


def reference_lines() -> Iterator[str]:
    yield "## Reference sets"
    yield ""
    for name, entry in read("references.json")["sets"].items():
        yield f"- `{name}` ({len(entry['scores'])} games): {entry['about']}."


def table_lines() -> Iterator[str]:
    by_paper = sorted(tables(), key=lambda table: table.paper.name.lower())
    for paper, group in groupby(by_paper, key=lambda table: table.paper):
        yield ""
        yield f"### {paper.name}"
        yield ""
        yield from paper_lines(paper)
        for table in group:
            yield f"- {sentence(table)}"


def paper_lines(paper: Paper) -> Iterator[str]:
    described = ". ".join(part for part in (paper.cited, ", ".join(paper.links)) if part)
    if described:
        yield f"{described}."
        yield ""


def sentence(table: Table) -> str:
    """Where a table is from, what it holds and how that was measured."""
    origins = [f"{agent}: {origin}" for agent, origin in table.origins.items()]
    protocol = str(table.protocol)
    parts = [
        f"`{table.id}`: {table.place}. {table.benchmark}, {table.metric}, {table.basis}",
        f"Agents: {', '.join(table.agents)}",
        protocol[:1].upper() + protocol[1:],
        "; ".join(origins),
        table.protocol.note.rstrip("."),
        table.note.rstrip("."),
    ]
    return ". ".join(part for part in parts if part) + "."


if __name__ == "__main__":
    print(page_part(), end="")
