"""STEP-VQ, figure 2a: training cost of world models with VQ tokens, relative to IRIS.

Measured now, or read from a document of `tokenworlds bench --json`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from PIL import Image

from tokenworlds.benchmarking.charts import NO_RECIPE, PUBLISHED
from tokenworlds.benchmarking.measurement import Plan
from tokenworlds.benchmarking.report import (
    BASELINE,
    BenchEnvironment,
    Target,
    measure_recipe,
    read_document,
    to_document,
)
from tokenworlds.benchmarking.tables import number
from tokenworlds.core.errors import UserError
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.evaluation.curves import style_axes
from tokenworlds.evaluation.pictures import Theme
from tokenworlds.figures.picture import Picture, Request, new_figure, to_image
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.machine import describe_machine

RECIPES = ("iris", "delta-iris", "step-vq-t", "step-vq-iris")
SECONDS = 5.0
KINDS = ("measured", "without tokenizer training", "published")
TIMES = "\N{MULTIPLICATION SIGN}"
Document = Mapping[str, Any]


def make(request: Request) -> Picture:
    document = stored(request) if request.bench else measure(request)
    data = costs(document)
    source = f"stored in {Path(request.bench).name}" if request.bench else "measured now"
    return Picture(
        f"Training cost relative to {BASELINE}",
        caption(data, source),
        data,
        lambda theme: draw(data, theme),
    )


def stored(request: Request) -> Document:
    """A document that has the baseline and one other recipe at the same size."""
    for name in ("size", "env", "seconds", "threads"):
        if getattr(request, name):
            raise UserError(f"--bench draws what was measured and takes no --{name}")
    document = read_document(Path(request.bench))
    recipes = [each["recipe"] for each in document["recipes"]]
    if BASELINE not in recipes or len(recipes) < 2:
        raise UserError(
            f"{request.bench} holds {', '.join(recipes) or 'no recipe'}: the figure needs "
            f"{BASELINE} and another recipe, as 'tokenworlds bench {' '.join(RECIPES)} --json' "
            "measures them"
        )
    if len({each["size"] for each in document["recipes"]}) > 1:
        raise UserError(f"{request.bench} mixes sizes, whose costs cannot be compared")
    return document


def measure(request: Request) -> Document:
    size, env = request.size or "paper", request.env
    seconds = SECONDS if request.seconds is None else request.seconds
    if not 0 < seconds < float("inf"):
        raise UserError(f"--seconds takes a number above 0, not {seconds}")
    torch.set_num_threads(request.threads or torch.get_num_threads())
    targets = []
    for name in RECIPES:
        found = load(name, size, env)
        spec = EnvSpec(env, "", found.recipe.resolution, found.recipe.grey)
        targets.append(Target(name, found.size, found.recipe, spec))
    reports = []
    for target in targets:
        request.note(f"measuring {target.name} at size {size}")
        reports.append(measure_recipe(target, Plan(seconds), lambda each: None))
    protocol, threads = targets[0].env.protocol, torch.get_num_threads()
    machine = describe_machine()
    environment = BenchEnvironment(targets[0].env.name, protocol, threads, seconds, machine)
    return to_document(environment, reports)


def costs(document: Document) -> dict[str, Any]:
    """The numbers of the figure; a recipe without a published speedup has None."""
    measured = {
        each["recipe"]: {
            "cal": each["per_step"]["total_cal"],
            "seconds": each["per_step"]["total_seconds"],
            "measured": each[f"speedup_over_{BASELINE}"],
            "without tokenizer training": each["speedup_without_autoencoder"],
            "published": PUBLISHED.get(each["recipe"]),
        }
        for each in document["recipes"]
    }
    machine = document["machine"]
    return {
        "env": document["env"],
        "size": document["recipes"][0]["size"],
        "threads": document["threads"],
        "processor": machine.get("processor", "unknown"),
        "recipes": {**measured, NO_RECIPE: {"published": PUBLISHED[NO_RECIPE]}},
    }


def caption(data: Mapping[str, Any], source: str) -> str:
    threads = data["threads"]
    return (
        f"Left: all updates of a run divided by its environment steps, in cal (the time of a fixed "
        f"calibration on the same machine). Right: speedups over {BASELINE}; those published are "
        f"from an L40S GPU and with the authors' code; {NO_RECIPE} is no recipe here.\n"
        f"Size {data['size']} on {data['env']}, {source}: {data['processor']}, {threads} "
        f"thread{'s' if threads > 1 else ''}."
    )


def draw(data: Mapping[str, Any], theme: Theme) -> Image.Image:
    recipes = data["recipes"]
    figure = new_figure(1.2 + 0.62 * len(recipes), theme)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2, 3))
    names = [name for name in recipes if "cal" in recipes[name]]
    values = [recipes[name]["cal"] for name in names]
    bars = left.barh(range(len(names)), values, height=0.5, color=theme.strong)
    left.bar_label(bars, [number(value) for value in values], **label_style(theme))
    finish(left, "cal per environment step", 1.25 * max(values), theme)
    draw_speedups(right, recipes, theme)
    left.set_yticks(range(len(recipes)), list(recipes))
    left.tick_params(axis="y", labelcolor=theme.text)
    left.invert_yaxis()
    right.legend(
        frameon=False, labelcolor=theme.text, fontsize=9, loc="lower left",
        bbox_to_anchor=(0, 1), ncols=3, borderpad=0.1, columnspacing=1.0, handlelength=1.2,
    )  # fmt: skip
    return to_image(figure)


def draw_speedups(axes: Axes, recipes: Mapping[str, Any], theme: Theme) -> None:
    styles: Sequence[dict[str, Any]] = (
        {"color": theme.strong},
        {"color": theme.best},
        {"color": "none", "edgecolor": theme.soft, "hatch": "////"},
    )
    highest = 0.0
    for offset, kind, style in zip((-0.26, 0.0, 0.26), KINDS, styles, strict=True):
        found = {
            place: numbers[kind]
            for place, numbers in enumerate(recipes.values())
            if numbers.get(kind) is not None
        }
        places, values = [place + offset for place in found], list(found.values())
        bars = axes.barh(places, values, height=0.24, label=kind, **style)
        axes.bar_label(bars, [f"{number(value)}{TIMES}" for value in values], **label_style(theme))
        highest = max(highest, *values)
    finish(axes, f"speedup over {BASELINE}", 1.15 * highest, theme)


def label_style(theme: Theme) -> dict[str, Any]:
    return {"padding": 4, "color": theme.text, "fontsize": 8.5}


def finish(axes: Axes, label: str, right: float, theme: Theme) -> None:
    style_axes(axes, theme, grid="x", spine="left", label_size=9)
    axes.set_xlim(0, right)
    axes.set_xlabel(label, color=theme.muted, fontsize=10)
