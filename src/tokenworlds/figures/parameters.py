"""STEP-VQ, figure 2b: parameters by resolution and by codebook size.

Counted from the recipes: the parameters between encoder and decoder and those of the prior, which
is the scope of the paper's two numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from PIL import Image

from tokenworlds.benchmarking.scaling import AXES, change, find_path, read_at
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.evaluation.curves import style_axes
from tokenworlds.evaluation.pictures import Theme
from tokenworlds.figures.picture import Picture, Request, new_figure, to_image
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.dry_run import naming_mismatches
from tokenworlds.training.summary import discretisation

RECIPES = {"step-vq-m": "VQ", "cb-m": "CB"}
RESOLUTIONS = (64, 96, 128, 192, 256)
SIZES = (16, 32, 64, 128, 256, 512)
PUBLISHED = {"step-vq-m": 2_175_616, "cb-m": 8_919_552}
"""STEP-VQ, section 3.2, at 64x64 and with the codebooks of the recipes."""
ACTIONS = ActionSpace(18)
"""Any number: no parameter between encoder, decoder and prior depends on it."""
MARKERS = {"step-vq-m": "o", "cb-m": "s"}


@dataclass(frozen=True, slots=True)
class Curve:
    """Parameters of a recipe along an axis; `own` is the recipe's own value of the axis."""

    recipe: str
    axis: str
    own: int
    values: Sequence[int]
    parameters: Sequence[int]


def make(request: Request) -> Picture:
    size = request.size or "paper"
    curves = [curve for name in RECIPES for curve in count_curves(name, size)]
    published = PUBLISHED if size == "paper" else {}
    data = {"size": size, "curves": [asdict(curve) for curve in curves], "published": published}
    return Picture(
        "Parameters by resolution and codebook size",
        caption(size, curves),
        data,
        lambda theme: draw(curves, published, theme),
    )


def caption(size: str, curves: Sequence[Curve]) -> str:
    own = {curve.recipe: curve.own for curve in curves if curve.axis == "vocabulary"}
    rings = "; rings are the paper's two numbers" if size == "paper" else ""
    return (
        f"Parameters between encoder and decoder and in the prior, codebook included, counted from "
        f"the recipes step-vq-m (VQ) and cb-m (CB, categorical bottleneck) at size {size}{rings}.\n"
        f"Left: codebooks of {own['step-vq-m']} codes, categoricals of {own['cb-m']} classes. "
        f"Right: frames of 64x64."
    )


def count_curves(name: str, size: str) -> list[Curve]:
    recipe = load(name, size, "atari:Pong").recipe
    recipe = change(recipe, "resolution", RESOLUTIONS[0])
    axis = next(axis for axis in AXES if axis.name == "vocabulary")
    path = find_path(axis, recipe)
    assert path is not None
    return [
        count_curve(name, recipe, "resolution", "resolution", RESOLUTIONS),
        count_curve(name, recipe, axis.name, path, SIZES),
    ]


def count_curve(name: str, recipe: Recipe, axis: str, path: str, values: Sequence[int]) -> Curve:
    counts = [count_discretisation(change(recipe, path, value)) for value in values]
    return Curve(name, axis, read_at(recipe, path), values, counts)


def count_discretisation(recipe: Recipe) -> int:
    """Build the world without memory for its weights, and count."""
    shape = FrameShape(recipe.resolution, recipe.resolution, 1 if recipe.grey else 3)
    with naming_mismatches(), torch.device("meta"):
        world: Any = recipe.world.build(frame_shape=shape, action_space=ACTIONS)
    return discretisation(world)


def draw(curves: Sequence[Curve], published: Mapping[str, int], theme: Theme) -> Image.Image:
    figure = new_figure(4.0, theme)
    panels = figure.subplots(1, 2, sharey=True)
    axes_of = dict(zip(("resolution", "vocabulary"), panels, strict=True))
    labels = {"resolution": "frame width in pixels", "vocabulary": "codes, or classes"}
    for curve in curves:
        plot(axes_of[curve.axis], curve, published.get(curve.recipe), theme)
    for name, axes in axes_of.items():
        values = next(curve.values for curve in curves if curve.axis == name)
        style(axes, labels[name], values, theme)
    panels[0].set_ylabel("million parameters", color=theme.muted, fontsize=11)
    return to_image(figure)


def plot(axes: Axes, curve: Curve, published: int | None, theme: Theme) -> None:
    colour = theme.strong if curve.recipe == "step-vq-m" else theme.soft
    millions = [count / 1e6 for count in curve.parameters]
    axes.plot(curve.values, millions, color=colour, marker=MARKERS[curve.recipe], ms=6, lw=2.2)
    if published is not None:
        ring: dict[str, Any] = {"mfc": "none", "mec": theme.text, "mew": 1.4, "ls": "none"}
        axes.plot([curve.own], [published / 1e6], marker="o", ms=13, zorder=4, **ring)
    name = f"{RECIPES[curve.recipe]}\n{millions[-1]:.1f} M"
    place: dict[str, Any] = {"xytext": (9, 0), "textcoords": "offset points", "va": "center"}
    axes.annotate(name, (curve.values[-1], millions[-1]), color=theme.text, fontsize=9.5, **place)


def style(axes: Axes, label: str, values: Sequence[int], theme: Theme) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    style_axes(axes, theme, grid="both", spine="left")
    axes.set_xticks(values, [str(value) for value in values])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(label, color=theme.muted, fontsize=11)
    axes.set_xlim(values[0] * 0.85, values[-1] * (values[-1] / values[0]) ** 0.24)
