"""The few pieces of HTML that a report is made of; every text is escaped on its way in."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NewType

from tokenworlds.evaluation.pictures import data_uri

Html = NewType("Html", str)

STYLE = """
:root { color-scheme: light dark; --back: #fff; --panel: #f1f5f9; --text: #0f172a;
  --muted: #64748b; --line: #e2e8f0; --strong: #2563eb; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --panel: #1b2330; --text: #e6edf3;
  --muted: #8b98a9; --line: #252d39; --strong: #60a5fa; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 2.5rem 1.25rem 4rem; background: var(--back);
  color: var(--text); font: 16px/1.55 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; letter-spacing: -0.01em; }
h2 { margin: 3rem 0 0.75rem; font-size: 1.2rem; }
h3 { margin: 1.5rem 0 0.5rem; font-size: 1rem; color: var(--muted); font-weight: 600; }
p { margin: 0.4rem 0; max-width: 46rem; }
.lead, figcaption { color: var(--muted); }
figure { margin: 0; }
figure img { display: block; width: 100%; height: auto; }
figcaption { margin-top: 0.6rem; font-size: 0.9rem; max-width: 46rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: 0.9rem;
  margin: 1.75rem 0 0; }
.tile { background: var(--panel); border-radius: 0.75rem; padding: 0.9rem 1.1rem; }
.tile b { display: block; font-size: 1.4rem; line-height: 1.5; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.tile:first-child b { color: var(--strong); }
.tile span { display: block; color: var(--muted); font-size: 0.85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; }
th, td { padding: 0.4rem 1rem 0.4rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 500; width: 40%; }
td { font-variant-numeric: tabular-nums; }
th small { display: block; color: var(--muted); font-weight: 400; }
details { margin-top: 1rem; }
summary { cursor: pointer; color: var(--muted); }
"""


def join(*parts: Html) -> Html:
    """One after the other."""
    return Html("\n".join(parts))


def page(title: str, *body: Html) -> Html:
    """A whole document that needs no other file."""
    return Html(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{join(*body)}\n</body>\n</html>\n"
    )


def heading(title: str, lead: str) -> Html:
    """The title of the page and a sentence under it."""
    return Html(f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>')


def section(title: str, *body: Html) -> Html:
    """A part of the page under its own title."""
    return Html(f"<section>\n<h2>{escape(title)}</h2>\n{join(*body)}\n</section>")


def subtitle(title: str) -> Html:
    """A title within a section."""
    return Html(f"<h3>{escape(title)}</h3>")


def picture(light: bytes, dark: bytes, alt: str, caption: str = "") -> Html:
    """A PNG in the colours that the reader's screen is set to."""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return Html(
        "<figure><picture>"
        f'<source media="(prefers-color-scheme: dark)" srcset="{data_uri(dark)}">'
        f'<img src="{data_uri(light)}" alt="{escape(alt)}"></picture>{below}</figure>'
    )


def tiles(values: Sequence[tuple[str, str, str]]) -> Html:
    """Large numbers side by side: name, number, remark."""
    cells = (
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(number)}</b>'
        f"<span>{escape(remark)}</span></div>"
        for name, number, remark in values
    )
    return Html(f'<div class="tiles">{"".join(cells)}</div>')


def table(rows: Mapping[str, str], remarks: Mapping[str, str] | None = None) -> Html:
    """Names at the left, each with a remark if there is one; values at the right."""
    lines = (
        f"<tr><th>{escape(name)}{remark(name, remarks or {})}</th><td>{escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    return Html(f'<div class="scroll"><table>{"".join(lines)}</table></div>')


def remark(name: str, remarks: Mapping[str, str]) -> str:
    """Small letters under a name."""
    return f"<small>{escape(remarks[name])}</small>" if name in remarks else ""


def fold(title: str, *body: Html) -> Html:
    """Something that is opened on request."""
    return Html(f"<details><summary>{escape(title)}</summary>\n{join(*body)}\n</details>")
