"""Learning curves of a family of environments: a panel for each game, a line for each agent."""

import io
import json
import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from tokenworlds.core.files import sha256
from tokenworlds.evaluation.comparison.charts import reference_lines
from tokenworlds.evaluation.comparison.drawing import colour, dashes, panel_title
from tokenworlds.evaluation.comparison.numbers import common_steps, on_steps
from tokenworlds.evaluation.curves import Points, style_steps
from tokenworlds.evaluation.pictures import LIGHT
from tokenworlds.evaluation.receipts.receipt import Receipt

DIGEST = "Receipts"
"""The entry of a PNG's metadata with the hash of the curves that it shows."""
COLUMNS, WIDTH, HEIGHT = 3, 8.0, 2.3
LETTER, LINE = 0.07, 0.5
"""Inches of a letter of the legend, and of the line before a name."""
VERSION = 4
"""Raised when the drawing changes, so that pictures are made again."""


def curve_png(receipts: Sequence[Receipt]) -> bytes:
    games = sorted({receipt.task for receipt in receipts}, key=str.lower)
    names = sorted({label(receipt) for receipt in receipts})
    columns = min(COLUMNS, len(games))
    rows = math.ceil(len(games) / columns)
    width = WIDTH * max(columns, 2) / COLUMNS
    abreast = legend_columns(names, width)
    written = {name: wrapped(name, width) for name in names}
    lines = sum(1 + text.count("\n") for text in written.values())
    size = (width, HEIGHT * rows + 0.22 * math.ceil(lines / abreast))
    figure = Figure(figsize=size, dpi=150, facecolor=LIGHT.background, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.flat[len(games) :]:
        axes.set_visible(False)
    for axes, game in zip(panels.flat, games, strict=False):
        draw_game(axes, [receipt for receipt in receipts if receipt.task == game], names)
    handles = {
        name: handle
        for axes in panels.flat[: len(games)]
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    shown = [name for name in names if name in handles]
    figure.legend(
        [handles[name] for name in shown], [written[name] for name in shown],
        loc="outside lower left", frameon=False, ncols=abreast, fontsize=8, labelcolor=LIGHT.text,
    )  # fmt: skip
    buffer = io.BytesIO()
    metadata = {"Software": None, DIGEST: digest(receipts)}
    figure.savefig(buffer, format="png", metadata=metadata)
    return buffer.getvalue()


def legend_columns(names: Sequence[str], width: float) -> int:
    """As many as fit side by side, at most as many as there are panels."""
    return min(COLUMNS, max(1, int(width / (LETTER * max(map(len, names)) + LINE))))


def wrapped(name: str, width: float) -> str:
    """In lines that fit into the picture."""
    return textwrap.fill(name, int((width - LINE) / LETTER), break_on_hyphens=False)


def label(receipt: Receipt) -> str:
    return f"{receipt.agent} ({receipt.size}, {receipt.steps:,} steps)"


def draw_game(axes: Axes, receipts: Sequence[Receipt], names: Sequence[str]) -> None:
    """Thin lines are seeds, thick lines their mean."""
    for receipt in receipts:
        curves = [points(seed.curve.steps, seed.curve.returns) for seed in receipt.seeds]
        curves = [curve for curve in curves if len(curve.steps)]
        index = names.index(label(receipt))
        for curve in curves:
            axes.plot(*curve, color=colour(index), lw=0.7, alpha=0.4)
        if curves and len(steps := common_steps(curves)):
            mean = on_steps(curves, steps).mean(axis=0)
            style: dict[str, Any] = {"color": colour(index), "ls": dashes(index), "lw": 1.8}
            axes.plot(steps, mean, label=label(receipt), **style)
    style_steps(axes, LIGHT, ticks=4, label_size=8)
    axes.set_xlim(left=0)
    known = [receipt.random for receipt in receipts if receipt.random is not None]
    reference_lines(axes, {"random": sum(known) / len(known)} if known else {})
    axes.set_xlabel("agent steps", fontsize=8, color=LIGHT.muted)
    axes.set_ylabel("return", fontsize=8, color=LIGHT.muted)
    panel_title(axes, receipts[0].task)


def points(steps: Sequence[int], returns: Sequence[float]) -> Points:
    return Points(np.array(steps, np.int64), np.array(returns, np.float64))


def digest(receipts: Sequence[Receipt]) -> str:
    """A hash of all that the picture shows: fonts and versions change its bytes, not this."""
    shown = [
        [r.place, r.random, [asdict(seed.curve) for seed in r.seeds]]
        for r in sorted(receipts, key=lambda r: r.place)
    ]
    return sha256(json.dumps([VERSION, shown]).encode())


def shows(path: Path, receipts: Sequence[Receipt]) -> bool:
    """Whether a picture shows the curves of these receipts."""
    if not path.is_file():
        return False
    with Image.open(path) as image:
        return bool(image.info.get(DIGEST) == digest(receipts))
