"""The pieces of a self-contained HTML page: style, sections, pictures, tiles and tables."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NewType

from tokenworlds.evaluation.pictures import DARK, LIGHT, Theme, data_uri, minus

Html = NewType("Html", str)
"""Markup with every text escaped."""

STYLE = """
:root { color-scheme: light dark; --back: #fff; --panel: #f1f5f9; --text: #0f172a;
  --muted: #64748b; --line: #e2e8f0; --strong: #2563eb; --s0: #0072b2; --s1: #d55e00;
  --s2: #009e73; --s3: #cc79a7; --s4: #b58900; --s5: #56b4e9; --s6: #7a5195; --s7: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --panel: #1b2330; --text: #e6edf3;
  --muted: #8b98a9; --line: #252d39; --strong: #60a5fa; --s0: #4ba3dd; --s1: #ff8a3d;
  --s2: #2fc79a; --s3: #e59ac3; --s4: #e0b83c; --s5: #8fd0f8; --s6: #b48ad8; --s7: #a3acb9; } }
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
@media (max-width: 44rem) { figure picture { display: block; overflow-x: auto; }
  figure img { width: 44rem; max-width: none; } }
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


def in_both_themes(render: Callable[[Theme], bytes]) -> tuple[bytes, bytes]:
    return render(LIGHT), render(DARK)


def format_number(value: int | float, digits: int = 4) -> str:
    """Significant digits; integers in full."""
    return minus(f"{value:,.0f}" if float(value).is_integer() else f"{value:.{digits}g}")


def join(*parts: Html) -> Html:
    return Html("\n".join(parts))


def page(title: str, lead: str, *body: Html, style: str = "") -> Html:
    """A page; `style` is added to the style that all pages share."""
    return Html(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style>\n</head>\n"
        f'<body>\n<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>\n'
        f"{join(*body)}\n</body>\n</html>\n"
    )


def section(title: str, *body: Html) -> Html:
    return Html(f"<section>\n<h2>{escape(title)}</h2>\n{join(*body)}\n</section>")


def picture(light: bytes, dark: bytes, alt: str, caption: str = "") -> Html:
    """Two PNGs, of which the browser shows the one for its colour scheme."""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return Html(
        "<figure><picture>"
        f'<source media="(prefers-color-scheme: dark)" srcset="{data_uri(dark)}">'
        f'<img src="{data_uri(light)}" alt="{escape(alt)}"></picture>{below}</figure>'
    )


def tiles(values: Sequence[tuple[str, str, str]]) -> Html:
    """Large numbers side by side, from tuples of name, number and remark."""
    cells = (
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(number)}</b>'
        f"<span>{escape(remark)}</span></div>"
        for name, number, remark in values
    )
    return Html(f'<div class="tiles">{"".join(cells)}</div>')


def table(rows: Mapping[str, str], remarks: Mapping[str, str] | None = None) -> Html:
    """Names at the left with their remarks, values at the right."""
    remarks = remarks or {}
    small = {name: f"<small>{escape(remark)}</small>" for name, remark in remarks.items()}
    lines = (
        f"<tr><th>{escape(name)}{small.get(name, '')}</th><td>{escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    return Html(f'<div class="scroll"><table>{"".join(lines)}</table></div>')
