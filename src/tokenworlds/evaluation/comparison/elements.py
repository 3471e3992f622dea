"""Pieces of the page of a comparison: its style, tables, legends and remarks."""

from collections.abc import Mapping, Sequence
from html import escape

from tokenworlds.evaluation import statistics
from tokenworlds.evaluation.comparison.drawing import DASHES, SERIES
from tokenworlds.evaluation.comparison.numbers import Estimate
from tokenworlds.evaluation.page import Html, join
from tokenworlds.evaluation.pictures import minus

Heading = str | tuple[str, str]
"""The name of a column, with a second line or without."""
NOTHING = "\N{EN DASH}"
GLYPHS = "\u25cf\u25a0\u25b2\u25c6\u25bc\u271a\u2716\u2605"
"""The markers of the charts, as text."""
STYLE = """
body { max-width: 96rem; padding-left: max(1.25rem, 2vw); padding-right: max(1.25rem, 2vw); }
section section h2 { font-size: 1.05rem; margin-top: 2.25rem; }
.benchmark { margin-top: 3rem; border-top: 1px solid var(--line); }
.chart { display: block; width: 100%; height: auto; overflow: visible; }
.panels { display: grid; gap: 1.25rem 1.5rem;
  grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr)); }
.small { grid-template-columns: 1fr; }
.large { grid-template-columns: repeat(auto-fill, minmax(min(21rem, 100%), 1fr)); gap: 2rem 3rem;
  align-items: start; margin-top: 2rem; }
.large > * { max-width: 34rem; }
.benchmark h3 { margin: 0 0 0.75rem; color: var(--text); }
.legend { display: flex; flex-wrap: wrap; gap: 0.3rem 1.25rem; margin: 0.75rem 0 1rem; padding: 0;
  list-style: none; font-size: 0.92rem; }
.legend li { display: flex; align-items: center; gap: 0.45rem; overflow-wrap: anywhere; }
.legend svg { width: 1.6rem; height: 0.8rem; flex: none; }
.remarks { margin: 1rem 0; padding: 0.75rem 1rem 0.75rem 2rem; background: var(--panel);
  border-left: 4px solid var(--s1); border-radius: 0.4rem; max-width: 60rem; }
.scroll { margin-top: 1rem; }
.grid { width: auto; }
.grid th { width: auto; overflow-wrap: normal; }
.grid td, .grid thead th { text-align: right; padding: 0.35rem 0 0.35rem 1.75rem;
  overflow-wrap: normal; white-space: nowrap; }
.grid thead th { font-weight: 600; vertical-align: bottom; white-space: normal; min-width: 7.5rem; }
.grid thead small { font-size: 0.78rem; }
.grid thead th:first-child { text-align: left; padding-left: 0; min-width: 0; }
.grid td small { display: block; color: var(--muted); }
.grid th:first-child { position: sticky; left: 0; background: var(--back); padding-right: 0.5rem;
  z-index: 1; }
.grid .theirs { color: var(--muted); }
.wide td:last-child { text-align: left; font: 0.82rem ui-monospace, monospace; }
.sources { font-size: 0.88rem; color: var(--muted); padding-left: 1.2rem; max-width: 60rem; }
@media (min-width: 40rem) { .small { grid-template-columns: repeat(3, 1fr); } }
@media (min-width: 90rem) { .small { grid-template-columns: repeat(6, 1fr); } }
@media (max-width: 40rem) {
  .grid tbody th { max-width: 9.5rem; min-width: 6rem; overflow-wrap: break-word; }
  .grid td, .grid thead th { padding-left: 1rem; }
}
"""


def number(value: int | float, small: int = 2) -> str:
    """Digits as papers print them: from 100 none after the point, below 10 `small` of them."""
    digits = 0 if abs(value) >= 100 else min(small, 1) if abs(value) >= 10 else small
    return minus(f"{value:,.{digits}f}")


def digits_of(label: str) -> int:
    """Digits of an aggregate; one of them is a count."""
    return 0 if label == statistics.superhuman.label else 3


def estimate_cell(found: Estimate | None, remark: str = "", small: int = 2) -> Html:
    """The value, and below it the interval and a remark."""
    if found is None:
        return Html(NOTHING)
    words = [remark] if remark else []
    if found.interval is not None:
        low, high = found.interval.low, found.interval.high
        words = [f"{number(low, small)} to {number(high, small)}", *words]
    below = f"<small>{escape(', '.join(words))}</small>" if words else ""
    return Html(f"{number(found.value, small)}{below}")


def grid_table(
    corner: str,
    columns: Sequence[Heading],
    rows: Mapping[str, Sequence[Html]],
    kind: str = "",
) -> Html:
    """A table that scrolls sideways beside its row names."""
    head = "".join(heading(name) for name in (corner, *columns))
    lines = (
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        for name, cells in rows.items()
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return Html(f'<div class="scroll"><table class="grid {kind}">{table}</table></div>')


def heading(name: Heading) -> str:
    if isinstance(name, str):
        return f"<th>{escape(name)}</th>"
    return f"<th>{escape(name[0])}<small>{escape(name[1])}</small></th>"


def legend(agents: Sequence[str]) -> Html:
    items = (f"<li>{legend_mark(i)}{escape(agent)}</li>" for i, agent in enumerate(agents))
    return Html(f'<ul class="legend">{"".join(items)}</ul>')


def legend_mark(index: int) -> str:
    """A piece of the agent's line with its marker."""
    turn = index + index // len(SERIES)
    style = DASHES[turn % len(DASHES)]
    dashes = "" if isinstance(style, str) else " ".join(f"{2.5 * d:.1f}" for d in style[1])
    colour = f"var(--s{index % len(SERIES)})"
    return (
        f'<svg viewBox="0 0 32 16" aria-hidden="true"><line x2="32" y1="8" y2="8" stroke="{colour}"'
        f' stroke-width="3" stroke-dasharray="{dashes}"/><text x="16" y="13" font-size="14" '
        f'text-anchor="middle" fill="{colour}">{GLYPHS[turn % len(GLYPHS)]}</text></svg>'
    )


def remark_list(remarks: Sequence[str]) -> Html:
    return item_list(remarks, "remarks")


def item_list(texts: Sequence[str], kind: str) -> Html:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return Html(f'<ul class="{kind}">{items}</ul>') if texts else Html("")


def paragraph(text: str) -> Html:
    return Html(f"<p>{escape(text)}</p>")


def titled(title: str, *parts: Html) -> Html:
    return Html(f"<div><h3>{escape(title)}</h3>{join(*parts)}</div>")


def panels(parts: Sequence[Html], kind: str = "") -> Html:
    return Html(f'<div class="panels {kind}">{join(*parts)}</div>')
