"""Δ-IRIS, figure 3: a dream with random Δ-tokens beside one with predicted Δ-tokens.

What both get right is in the decoder, which sees the previous frames and actions; what only the
second gets right is in the tokens.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from tokenworlds.core.capabilities import SamplesRandomTokens
from tokenworlds.core.errors import UserError
from tokenworlds.core.seeding import numpy_generator, torch_generator
from tokenworlds.evaluation.curves import add_legend, style_axes
from tokenworlds.evaluation.dreams import DreamRows, Frames, dream_rows
from tokenworlds.evaluation.pictures import Theme
from tokenworlds.figures.picture import Picture, Request, new_figure, to_image
from tokenworlds.figures.runs import LoadedRun, choose_episode, read, the_run
from tokenworlds.figures.sheet import draw_sheet, rgb, stack

STEPS = 10


@dataclass(frozen=True, slots=True)
class TwoDreams:
    """A recorded episode and two dreams of it, from the last context frame, step 0, on."""

    rows: DreamRows
    zero: int

    def frames(self, frames: Frames) -> UInt8[np.ndarray, "B t H W C"]:
        return frames[:, self.zero :]

    def error(self, frames: Frames) -> Float[np.ndarray, " t"]:
        """Mean absolute difference to the record in grey levels of 0 to 255, from step 1 on."""
        pairs = self.frames(frames)[0, 1:].astype(float), self.frames(self.rows.real)[0, 1:]
        return np.asarray(np.abs(pairs[0] - pairs[1]).mean(axis=(1, 2, 3)))

    @property
    def random(self) -> Frames:
        assert self.rows.random_dream is not None
        return self.rows.random_dream


def make(request: Request) -> Picture:
    run = the_run(request)
    if not isinstance(run.agent.world, SamplesRandomTokens):
        raise UserError(
            f"{run.name} trains {run.spec.recipe_name}, which has no Δ-tokens: choose a run of "
            "delta-iris"
        )
    seed = run.spec.seed if request.seed is None else request.seed
    dreams = dream(run, request.steps or STEPS, seed)
    errors = {"random": dreams.error(dreams.random), "predicted": dreams.error(dreams.rows.dream)}
    data = {
        "run": run.facts(),
        "figure_seed": seed,
        "steps": len(errors["random"]),
        "error": {name: values.tolist() for name, values in errors.items()},
    }
    return Picture(
        f"Random and predicted Δ-tokens on {run.spec.env.name}",
        caption(run, data),
        data,
        lambda theme: draw(dreams, theme),
    )


def dream(run: LoadedRun, steps: int, seed: int) -> TwoDreams:
    rng = numpy_generator(seed, "figure")
    context = run.agent.world.frames
    chosen = choose_episode(run.replay, context + steps, rng)
    length = min(context + steps, len(chosen))
    if length <= context:
        raise UserError(f"{run.name} has no episode of more than {context} steps to dream of")
    start = int(rng.integers(len(chosen) - length + 1))
    segment = read(run.replay, chosen, start, length)
    generator = torch_generator(seed, "figure", device=str(run.agent.device))
    rows = dream_rows(run.agent, segment, horizon=length - context, generator=generator)
    return TwoDreams(rows, context - 1)


def caption(run: LoadedRun, data: dict[str, Any]) -> str:
    means = {name: float(np.mean(values)) for name, values in data["error"].items()}
    return (
        f"{run.sentence()}. Both dreams start from the recorded frame at t = 0 and follow the "
        f"recorded actions; one samples its Δ-tokens uniformly, the other from the transformer's "
        f"prediction. Mean absolute difference to the record: {means['random']:.1f} and "
        f"{means['predicted']:.1f} of 255 grey levels. One recorded episode, seed "
        f"{data['figure_seed']}."
    )


def draw(dreams: TwoDreams, theme: Theme) -> Image.Image:
    shown = {
        "recorded": dreams.rows.real,
        "random\nΔ-tokens": dreams.random,
        "predicted\nΔ-tokens": dreams.rows.dream,
    }
    lines = {
        name: [rgb(each) for each in dreams.frames(frames)[0]] for name, frames in shown.items()
    }
    heads = [f"t = {step}" for step in range(len(lines["recorded"]))]
    return stack([draw_sheet(lines, heads, {}, theme), draw_errors(dreams, theme)], theme)


def draw_errors(dreams: TwoDreams, theme: Theme) -> Image.Image:
    figure = new_figure(1.7, theme)
    axes = figure.add_subplot()
    for name, frames, colour, marker in (
        ("random Δ-tokens", dreams.random, theme.soft, "s"),
        ("predicted Δ-tokens", dreams.rows.dream, theme.strong, "o"),
    ):
        errors = dreams.error(frames)
        steps = np.arange(1, len(errors) + 1)
        axes.plot(steps, errors, color=colour, marker=marker, ms=5, lw=1.8, label=name)
    style_axes(axes, theme, grid="y", spine="bottom", label_size=9)
    axes.set_ylim(0, 1.12 * max(errors.max(), axes.get_ylim()[1]))
    axes.set_xticks(steps)
    axes.set_ylabel("difference", color=theme.muted, fontsize=9)
    axes.set_xlabel("imagined step", color=theme.muted, fontsize=9)
    add_legend(axes, theme, columns=2)
    return to_image(figure)
