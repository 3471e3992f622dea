"""GIT-STORM, figure 16: the dynamics loss of the prior over training."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from PIL import Image

from tokenworlds.benchmarking.scaling import read_at
from tokenworlds.core.errors import UserError
from tokenworlds.evaluation.curves import select, smooth, style_steps
from tokenworlds.evaluation.pictures import Theme
from tokenworlds.figures.picture import Picture, Request, RunSource, new_figure, to_image
from tokenworlds.figures.runs import spec_facts
from tokenworlds.runs.events import read_metrics

METRIC = "world/loss/dynamics"
POINTS = 200
"""Curves of several seeds are averaged at so many steps."""
LEAST = 1e-6
"""Nats; without free bits a divergence may be 0 up to rounding, which has no logarithm."""
STYLES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))


@dataclass(frozen=True, slots=True)
class KLCurve:
    """The dynamics loss of one recipe in one environment, averaged over its runs.

    `low` and `high` are the extremes over runs.
    """

    env: str
    recipe: str
    size: str
    seeds: Sequence[int]
    steps: Sequence[int]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def make(request: Request) -> Picture:
    groups: dict[tuple[str, str, str], list[RunSource]] = {}
    for source in request.runs:
        spec = source.spec
        groups.setdefault((spec.env.name, spec.recipe_name, spec.size), []).append(source)
    curves = [average(key, sources, request) for key, sources in groups.items()]
    floors = sorted({free_bits(source) for source in request.runs})
    data = {
        "runs": [spec_facts(source.spec) for source in request.runs],
        "metric": METRIC,
        "free_bits": floors,
        "curves": [asdict(curve) for curve in curves],
    }
    title = "KL divergence of the dynamics over training"
    return Picture(title, caption(curves, floors), data, lambda theme: draw(curves, floors, theme))


def free_bits(source: RunSource) -> float:
    """The floor of the loss; only a prior that is trained with a divergence has one."""
    prior = source.spec.recipe.world
    floor, objective = (read_at(prior, f"prior.{name}") for name in ("free_bits", "objective"))
    if floor is None or objective == "cross-entropy":
        raise UserError(
            f"{source.name} trains {source.spec.recipe_name}, which has no KL divergence of a "
            "prior: choose runs of git-storm, storm or another recipe with a latent world"
        )
    return float(floor)


def average(key: tuple[str, str, str], sources: Sequence[RunSource], request: Request) -> KLCurve:
    series = []
    for source in sources:
        free_bits(source)
        events, notes = read_metrics(source.folder.path)
        for text in notes:
            request.note(text)
        points = select(events, METRIC)
        if not len(points.steps):
            raise UserError(f"{source.name} has logged no {METRIC} yet: train it further")
        series.append(points)
    end = min(int(points.steps[-1]) for points in series)
    begin = max(int(points.steps[0]) for points in series)
    if len(series) == 1:
        steps = series[0].steps
        values = series[0].values[None]
    else:
        steps = np.linspace(begin, max(begin, end), POINTS).round().astype(np.int64)
        values = np.stack([np.interp(steps, *points) for points in series])
    seeds = [source.spec.seed for source in sources]
    low, high = values.min(axis=0), values.max(axis=0)
    numbers = (each.tolist() for each in (steps, values.mean(axis=0), low, high))
    return KLCurve(*key, seeds, *numbers)


def caption(curves: Sequence[KLCurve], floors: Sequence[float]) -> str:
    floor = " and ".join(f"{value:g}" for value in floors)
    runs = "; ".join(
        f"{curve.recipe} (size {curve.size}) on {curve.env}, "
        f"seed{'s' if len(curve.seeds) > 1 else ''} {', '.join(map(str, curve.seeds))}, "
        f"to step {curve.steps[-1]:,}"
        for curve in curves
    )
    several = any(len(curve.seeds) > 1 for curve in curves)
    band = " The band spans the runs." if several else " One run each: no interval."
    return (
        f"Loss {METRIC} in nats per frame, a constant below its free bits ({floor}). A MaskGIT "
        f"prior predicts masked tokens given the visible ones, scaled to a whole frame: an easier "
        f"task than all tokens at once. Thin: as logged; thick: smoothed.{band}\n{runs}."
    )


def draw(curves: Sequence[KLCurve], floors: Sequence[float], theme: Theme) -> Image.Image:
    envs = list(dict.fromkeys(curve.env for curve in curves))
    figure = new_figure(3.6, theme)
    panels = figure.subplots(1, len(envs), squeeze=False, sharey=True)[0]
    colours = styles_by_recipe(curves, theme)
    for env, axes in zip(envs, panels, strict=True):
        for floor in floors:
            axes.axhline(floor, color=theme.muted, lw=1.2, ls=(0, (1, 2)))
            place: dict[str, Any] = {"xy": (0.01, floor), "xycoords": axes.get_yaxis_transform()}
            place |= {"xytext": (0, 4), "textcoords": "offset points"}
            axes.annotate("free bits", color=theme.muted, fontsize=9, **place)
        for curve in curves:
            if curve.env == env:
                plot(axes, curve, **colours[curve.recipe, curve.size])
        style_steps(axes, theme, ticks=4)
        axes.set_yscale("log")
        axes.set_title(env, loc="left", color=theme.text, fontsize=11)
        axes.set_xlabel("agent steps", color=theme.muted, fontsize=10)
        axes.legend(frameon=False, labelcolor=theme.text, fontsize=9.5)
    panels[0].set_ylabel("nats per frame", color=theme.muted, fontsize=10)
    return to_image(figure)


def styles_by_recipe(
    curves: Sequence[KLCurve], theme: Theme
) -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """A colour and a line style for each recipe, the same in all panels."""
    recipes = list(dict.fromkeys((curve.recipe, curve.size) for curve in curves))
    colours = (theme.strong, theme.soft, theme.best, theme.muted)
    if len(recipes) > len(colours):
        raise UserError(f"git-storm-16 shows at most {len(colours)} recipes, not {len(recipes)}")
    pairs = zip(recipes, colours, STYLES, strict=False)
    return {recipe: {"color": colour, "ls": style} for recipe, colour, style in pairs}


def plot(axes: Axes, curve: KLCurve, *, color: str, ls: Any) -> None:
    mean = np.array(curve.mean)
    if len(curve.seeds) > 1:
        axes.fill_between(curve.steps, curve.low, curve.high, color=color, alpha=0.2, lw=0)
    axes.plot(curve.steps, mean, color=color, lw=0.7, alpha=0.4)
    # On a logarithmic axis, an average of values would hang above a steep fall.
    smoothed = np.exp(smooth(np.log(np.maximum(mean, LEAST)), max(2.0, len(mean) / 50)))
    axes.plot(curve.steps, smoothed, color=color, ls=ls, lw=2.2, label=curve.recipe)
