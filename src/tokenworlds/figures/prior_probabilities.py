"""GIT-STORM, figure 17: how the prior's probabilities are distributed at each step of a dream.

A prior that is sure of its tokens gives most of them a probability near 0 and a few one near 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from PIL import Image
from torch import Generator, Tensor

from tokenworlds.behaviours.imagination import imagine
from tokenworlds.core.errors import UserError
from tokenworlds.core.seeding import numpy_generator, torch_generator
from tokenworlds.core.types import Outcome, Segment
from tokenworlds.evaluation.curves import style_axes
from tokenworlds.evaluation.dreams import to_uint8
from tokenworlds.evaluation.pictures import Theme
from tokenworlds.figures.picture import Picture, Request, new_figure, to_image
from tokenworlds.figures.runs import LoadedRun, episodes, load_run
from tokenworlds.figures.sheet import Pixels, rgb
from tokenworlds.priors.factorised import Factorised
from tokenworlds.priors.maskgit import MaskGIT
from tokenworlds.replay.sampling import Windows, gather
from tokenworlds.worlds.latent import Latent, LatentCarry

STEPS, CONTEXT, ROWS = 6, 4, 32
BINS = 25
MAX_RUNS = 2
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, slots=True)
class PriorDream:
    """Dreams of a run. `density` is that of all probabilities in `BINS` bins, a row per step;
    `highest` the mean probability of each token's most likely value; `perplexity` the exponential
    of the mean entropy of a token. `frames` are those of the first dream."""

    label: str
    frames: Sequence[Pixels]
    density: Float[np.ndarray, "T bins"]
    highest: Float[np.ndarray, " T"]
    perplexity: Float[np.ndarray, " T"]


def make(request: Request) -> Picture:
    if len(request.runs) > MAX_RUNS:
        raise UserError(f"git-storm-17 compares {MAX_RUNS} runs at most, not {len(request.runs)}")
    runs = [load_run(source, request) for source in request.runs]
    seed = runs[0].spec.seed if request.seed is None else request.seed
    longest = max(len(episode) for episode in episodes(runs[0].replay))
    steps = request.steps or max(1, min(STEPS, longest - CONTEXT))
    segment = context_of(runs, steps, seed)
    dreams = [dream(run, segment, steps, seed) for run in runs]
    data = {
        "runs": [run.facts() for run in runs],
        "figure_seed": seed,
        "rows": ROWS,
        "context": CONTEXT,
        "bin_edges": np.linspace(0, 1, BINS + 1).tolist(),
        "dreams": [describe(each) for each in dreams],
    }
    real = [rgb(frame) for frame in segment.frame[0, CONTEXT:].numpy()]
    return Picture(
        f"Probabilities of the prior in dreams of {runs[0].spec.env.name}",
        caption(runs, dreams, seed),
        data,
        lambda theme: draw(real, dreams, theme),
    )


def context_of(runs: Sequence[LoadedRun], steps: int, seed: int) -> Segment:
    """Recorded steps of the first run, which all runs dream from and whose actions they follow."""
    first, *others = runs
    shape, space = first.agent.frame_shape, first.agent.action_space
    for other in others:
        if (other.agent.frame_shape, other.agent.action_space) != (shape, space):
            raise UserError(
                f"{first.name} and {other.name} have other frames or actions: choose runs of one "
                "environment and resolution, which can dream from the same recorded steps"
            )
    length, rng = CONTEXT + steps, numpy_generator(seed, "figure")
    windows = Windows.of(first.replay, length)
    later = [
        (env, time)
        for env in range(windows.num_envs)
        for time in range(windows.starts // 2, windows.starts)
        # A dream cannot predict a new episode.
        if not first.replay.records["first"][env, time + 1 : time + length].any()
    ]
    if not later:
        raise UserError(
            f"{first.name} has no episode of {length} recorded steps, {CONTEXT} to read and "
            f"{steps} to dream: choose fewer --steps, or train it further"
        )
    chosen = rng.integers(len(later), size=ROWS)
    return gather(first.replay, np.array([later[index] for index in chosen]), length)


@torch.no_grad()
def dream(run: LoadedRun, segment: Segment, steps: int, seed: int) -> PriorDream:
    """Dream under the recorded actions and read the prior at every step."""
    world = run.agent.world
    if not isinstance(world, Latent) or not isinstance(world.prior, Factorised | MaskGIT):
        raise UserError(
            f"{run.name} trains {run.spec.recipe_name}, which has no prior over tokens to show: "
            "choose runs of git-storm, storm or another recipe with a latent world"
        )
    segment = segment.to(run.agent.device)
    actions = iter(segment.action[:, CONTEXT - 1 :].unbind(1))
    priors: list[Float[Tensor, "B K V"]] = []

    def step(
        carry: LatentCarry, action: Tensor, generator: Generator | None
    ) -> tuple[LatentCarry, Outcome]:
        after, outcome = world.step(carry, action, generator)
        priors.append(read_prior(world, after))
        return after, outcome

    imagined = imagine(
        world,
        world.start(segment.window(slice(CONTEXT)), steps),
        read=lambda view: view.frame[0],
        act=lambda _: next(actions),
        steps=steps,
        generator=torch_generator(seed, "figure", device=str(run.agent.device)),
        step=step,
    )
    frames = [rgb(to_uint8(each.after)) for each in imagined]
    probs = torch.stack(priors).double().cpu().numpy()
    flat = probs.reshape(steps, -1)
    counts = [np.histogram(values, bins=BINS, range=(0, 1), density=True)[0] for values in flat]
    entropy = -(probs * np.log(np.maximum(probs, TINY))).sum(axis=-1).mean(axis=(1, 2))
    return PriorDream(
        run.spec.recipe_name,
        frames,
        np.array(counts),
        probs.max(axis=-1).mean(axis=(1, 2)),
        np.exp(entropy),
    )


def read_prior(world: Latent, carry: LatentCarry) -> Float[Tensor, "B K V"]:
    """The distribution that the tokens of a state were sampled from.

    MaskGIT with several rounds samples most tokens given others; this is its first round, in which
    all tokens are masked.
    """
    prior = world.prior
    if isinstance(prior, MaskGIT):
        masked = torch.full_like(carry.index, prior.vocabulary)
        return prior.log_probs(carry.hidden, masked).exp()
    assert isinstance(prior, Factorised)
    return prior.log_probs(carry.hidden).exp()


def describe(each: PriorDream) -> dict[str, Any]:
    return {
        "recipe": each.label,
        "density": each.density.tolist(),
        "highest": each.highest.tolist(),
        "perplexity": each.perplexity.tolist(),
    }


def caption(runs: Sequence[LoadedRun], dreams: Sequence[PriorDream], seed: int) -> str:
    numbers = "; ".join(
        f"{each.label}: most likely value {each.highest.mean():.2f}, perplexity of a token "
        f"{each.perplexity.mean():.2f}"
        for each in dreams
    )
    sources = "; ".join(run.sentence() for run in runs)
    whose = f" of {runs[0].spec.recipe_name}" if len(runs) > 1 else ""
    return (
        f"{sources}. Density of the probabilities that the prior gives to all values of all "
        f"tokens, over {ROWS} dreams from {CONTEXT} recorded frames{whose} each, under the "
        f"recorded actions, seed {seed}; frames of the first dream. Mean over the steps: {numbers}."
    )


def draw(real: Sequence[Pixels], dreams: Sequence[PriorDream], theme: Theme) -> Image.Image:
    """Recorded frames, the first run's dream, densities, and the second run's dream."""
    lines = [("recorded", real), *((each.label, each.frames) for each in dreams)]
    kinds = [*lines[:2], None, *lines[2:]]
    ratios = [1.0 if kind else 1.25 for kind in kinds]
    columns = len(real)
    figure = new_figure(1.3 * sum(ratios) * 6 / max(columns, 6) + 0.5, theme)
    grid = figure.subplots(len(kinds), columns, squeeze=False, height_ratios=ratios)
    for kind, row in zip(kinds, grid.tolist(), strict=True):
        if kind is None:
            draw_densities(row, dreams, theme)
        else:
            draw_frames(row, *kind, theme)
    for step, axes in enumerate(grid[0], start=1):
        axes.set_title(f"step {step}", color=theme.muted, fontsize=9)
    return to_image(figure)


def draw_frames(row: Sequence[Axes], label: str, frames: Sequence[Pixels], theme: Theme) -> None:
    for axes, frame in zip(row, frames, strict=True):
        axes.imshow(frame, interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
        for line in axes.spines.values():
            line.set(color=theme.grid)
    row[0].set_ylabel(label, color=theme.text, fontsize=9)


def draw_densities(row: Sequence[Axes], dreams: Sequence[PriorDream], theme: Theme) -> None:
    edges = np.linspace(0, 1, BINS + 1)
    lowest = min(each.density[each.density > 0].min() for each in dreams)
    highest = max(each.density.max() for each in dreams)
    for step, axes in enumerate(row):
        for each, colour, style in zip(
            dreams, (theme.strong, theme.soft), ("-", (0, (4, 1.5))), strict=False
        ):
            axes.stairs(each.density[step], edges, color=colour, ls=style, lw=1.5, label=each.label)
        style_axes(axes, theme, grid="both", spine="bottom", label_size=7)
        axes.set_yscale("log")
        axes.set_ylim(0.5 * lowest, 2 * highest)
        axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
        axes.tick_params(axis="y", labelleft=step == 0)
    row[0].set_ylabel("density", color=theme.text, fontsize=9)
    row[len(row) // 2].set_xlabel("probability", color=theme.muted, fontsize=8)
    row[-1].legend(frameon=False, labelcolor=theme.text, fontsize=7, loc="upper right")
