"""STEP-VQ, figures 7 to 10: frames, their tokens, the tokens that change, and reconstructions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from matplotlib.ticker import MaxNLocator
from PIL import Image

from tokenworlds.core.errors import UserError
from tokenworlds.core.seeding import numpy_generator
from tokenworlds.core.types import Reconstruction
from tokenworlds.evaluation.curves import style_axes
from tokenworlds.evaluation.dream_picture import render_tokens
from tokenworlds.evaluation.dreams import to_grid, to_uint8
from tokenworlds.evaluation.pictures import Theme, token_colours
from tokenworlds.figures.picture import Picture, Request, new_figure, to_image
from tokenworlds.figures.runs import LoadedRun, choose_episode, read, the_run
from tokenworlds.figures.sheet import Pixels, draw_sheet, rgb, stack

STEPS = 9
EPISODE = 256
"""At most so many steps of the episode are encoded."""
TOKEN = 16
"""Pixels of a token before the sheet scales it."""
VERMILION = np.array([213, 94, 0])
"""The red of Okabe and Ito's palette, which all viewers tell from grey."""


@dataclass(frozen=True, slots=True)
class TokenEpisode:
    """Steps of an episode. `changed` marks tokens that differ from those of the step before; at
    the first step there are none. Without a `spatial` grid a token belongs to no place."""

    frame: UInt8[np.ndarray, "T H W C"]
    decoded: UInt8[np.ndarray, "T H W C"]
    grid: Int[np.ndarray, "T h w"]
    changed: Bool[np.ndarray, "T h w"]
    vocabulary: int
    spatial: bool

    @property
    def tokens(self) -> int:
        return int((self.grid >= 0).sum(axis=(1, 2)).max())

    @property
    def shares(self) -> Float[np.ndarray, " T"]:
        """The share of tokens that changed at each step."""
        return np.asarray(self.changed.sum(axis=(1, 2)) / self.tokens)


def make(request: Request) -> Picture:
    run = the_run(request)
    seed = run.spec.seed if request.seed is None else request.seed
    rng = numpy_generator(seed, "figure")
    steps = request.steps or STEPS
    chosen = choose_episode(run.replay, steps + 1, rng)
    begin = int(rng.integers(max(1, len(chosen) - EPISODE + 1)))
    episode = encode(run, read(run.replay, chosen, begin, min(EPISODE, len(chosen))))
    length = len(episode.frame)
    # The first step has no step before it to compare with.
    start = int(rng.integers(1, max(2, length - steps + 1)))
    shown = range(start, min(start + steps, length))
    if not shown:
        raise UserError(f"{run.name} has only {length} step in an episode, too few to compare")
    data = {
        "run": run.facts(),
        "figure_seed": seed,
        "tokens": episode.tokens,
        "vocabulary": episode.vocabulary,
        "grid": list(episode.grid.shape[1:]),
        "episode_step": [begin + step for step in range(length)],
        "shown": [begin + step for step in shown],
        "changed": episode.changed.sum(axis=(1, 2)).tolist(),
        "shown_tokens": episode.grid[shown.start : shown.stop].tolist(),
    }
    return Picture(
        f"Tokens and their changes on {run.spec.env.name}",
        caption(run, episode, data),
        data,
        lambda theme: draw(episode, shown, begin, theme),
    )


def encode(run: LoadedRun, segment: Any) -> TokenEpisode:
    segment = segment.to(run.agent.device)
    reconstruction: Reconstruction | None = run.agent.world.reconstruct(segment)
    if reconstruction is None or reconstruction.shades:
        raise UserError(
            f"{run.name} trains {run.spec.recipe_name}, which has no discrete tokens to show: "
            "choose a run of step-vq-m or another recipe with tokens"
        )
    grid = to_grid(reconstruction.index[0].cpu().numpy(), reconstruction.grid)
    changed = np.zeros(grid.shape, np.bool_)
    # Δ-IRIS has no tokens for the first frame of a history: its cells hold -1.
    changed[1:] = (grid[1:] != grid[:-1]) & (grid[:-1] >= 0)
    return TokenEpisode(
        frame=segment.frame[0].cpu().numpy(),
        decoded=to_uint8(reconstruction.frame[0]),
        grid=grid,
        changed=changed,
        vocabulary=reconstruction.vocabulary,
        spatial=reconstruction.grid is not None,
    )


def caption(run: LoadedRun, episode: TokenEpisode, data: dict[str, Any]) -> str:
    height, width = data["grid"]
    mark = "Orange" if episode.spatial else "Bright in the third line"
    grid = f" on a grid of {height}x{width}" if episode.spatial else ""
    mean = 100 * float(episode.shares[1:].mean())
    return (
        f"{run.sentence()}. A frame has {episode.tokens} tokens{grid} from a codebook of "
        f"{episode.vocabulary}; a code has the same colour everywhere. {mark}: tokens that differ "
        f"from the step before, {mean:.1f} % on average over {len(episode.frame)} steps of one "
        f"episode, chosen with seed {data['figure_seed']}."
    )


def draw(episode: TokenEpisode, shown: range, begin: int, theme: Theme) -> Image.Image:
    counts = episode.changed.sum(axis=(1, 2))
    lines = {
        "frame": [rgb(episode.frame[step]) for step in shown],
        "tokens": [draw_tokens(episode, step, theme) for step in shown],
        "changed": [draw_changes(episode, step, theme) for step in shown],
        "decoded": [rgb(episode.decoded[step]) for step in shown],
    }
    notes = {"changed": [f"{counts[step]} of {episode.tokens}" for step in shown]}
    heads = [f"t = {begin + step}" for step in shown]
    sheet = draw_sheet(lines, heads, notes, theme)
    curve = draw_curve(episode, shown, begin, theme)
    return stack([sheet, curve], theme)


def draw_tokens(episode: TokenEpisode, step: int, theme: Theme) -> Pixels:
    side = TOKEN * max(episode.grid.shape[1:])
    colours = token_colours(episode.vocabulary)
    return render_tokens(episode.grid[step], colours, (side, side), theme)


def draw_changes(episode: TokenEpisode, step: int, theme: Theme) -> Pixels:
    """Patches over the grey frame, or the changed tokens alone where they have no place in it."""
    changed = episode.changed[step]
    side = TOKEN * max(episode.grid.shape[1:])
    if not episode.spatial:
        colours = token_colours(episode.vocabulary)
        return render_tokens(episode.grid[step], colours, (side, side), theme, changed)
    scale = max(1, round(256 / episode.frame.shape[1]))
    frame = rgb(episode.frame[step]).repeat(scale, axis=0).repeat(scale, axis=1)
    grey = np.repeat(frame.mean(axis=-1, keepdims=True), 3, axis=-1)
    mask = Image.fromarray(np.uint8(255) * changed.astype(np.uint8))
    lit = np.asarray(mask.resize(frame.shape[1::-1], Image.Resampling.NEAREST)) > 0
    mixed = np.where(lit[..., None], 0.2 * grey + VERMILION, grey)
    return np.asarray(np.rint(mixed).clip(0, 255), np.uint8)


def draw_curve(episode: TokenEpisode, shown: range, begin: int, theme: Theme) -> Image.Image:
    """The share of changed tokens over the episode; the steps of the sheet are in colour."""
    figure = new_figure(1.5, theme)
    axes = figure.add_subplot()
    steps = np.arange(1, len(episode.frame))
    colours = [theme.strong if step in shown else theme.muted for step in steps]
    axes.bar(begin + steps, 100 * episode.shares[1:], color=colours, width=0.8)
    style_axes(axes, theme, grid="y", spine="bottom", label_size=9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(begin + 0.4, begin + len(episode.frame) - 0.4)
    axes.set_ylabel("% changed", color=theme.muted, fontsize=9)
    axes.set_xlabel("step of the episode", color=theme.muted, fontsize=9)
    return to_image(figure)
