import io
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from counting_agent import SIDE, counting_agent, counting_segment, recipe_agent
from numpy.typing import NDArray
from PIL import Image

from tokenworlds.evaluation.dream_picture import (
    FAINT,
    Sheet,
    dream_png,
    enlarge,
    format_reward,
    render_step,
    render_tokens,
    write_dream,
)
from tokenworlds.evaluation.dreams import RANDOM_DREAM, DreamRows, dream_rows
from tokenworlds.evaluation.pictures import DARK, LIGHT, Theme, greys, token_colours

STEPS, HORIZON = 7, 5


def made_rows(name: str | None = "step-vq-m") -> DreamRows:
    agent = recipe_agent(name) if name else counting_agent()
    segment = counting_segment([{0, 4}, {0}], STEPS)
    generator = torch.Generator().manual_seed(0)
    return dream_rows(agent, segment, horizon=HORIZON, generator=generator)


def cell(picture: Image.Image, layout: Sheet, at: tuple[int, int], line: int) -> NDArray[np.uint8]:
    x, y = layout.x(at[1]), layout.y(at[0], line)
    return np.asarray(picture.crop((x, y, x + layout.width, y + layout.height)))


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_every_line_shows_its_exact_frames(theme: Theme) -> None:
    rows = made_rows()
    assert rows.tokens is not None
    layout = Sheet(rows, theme)
    picture = layout.draw()
    assert layout.factor == 8
    for at in np.ndindex(2, STEPS):
        np.testing.assert_array_equal(cell(picture, layout, at, 0), enlarge(rows.real[at], 8))
        decoded = enlarge(rows.tokens.reconstruction[at], 8)
        np.testing.assert_array_equal(cell(picture, layout, at, 1), decoded)
    for span in rows.spans:
        for time in range(span.dream, span.end):
            imagined = enlarge(rows.dream[span.row, time], 8)
            np.testing.assert_array_equal(cell(picture, layout, (span.row, time), 4), imagined)


def test_context_frames_are_faded_in_the_dream() -> None:
    rows = made_rows(None)
    layout = Sheet(rows)
    picture = layout.draw()
    context, real = cell(picture, layout, (0, 0), 1), cell(picture, layout, (0, 0), 0)
    assert (context > real).all()


def test_frames_do_not_overlap_and_lie_within_the_picture() -> None:
    rows = made_rows()
    layout = Sheet(rows)
    width, height = layout.size
    edges = [layout.x_range(time, time + 1) for time in range(STEPS)]
    assert all(right < left for (_, right), (left, _) in pairwise(edges))
    lines = [layout.y(panel, line) for panel in range(2) for line in range(5)]
    assert min(np.diff(lines)) > layout.height
    assert edges[-1][1] < width
    assert lines[-1] + layout.height < height


def test_a_wider_gap_precedes_the_dream() -> None:
    layout = Sheet(made_rows())
    gaps = np.diff([layout.x(time) for time in range(STEPS)]) - layout.width
    # Row 0 has context at 0, 1, 4 and 5 (a new episode) and dreams at 2, 3 and 6; row 1 from 2 on.
    assert (gaps[[1, 3, 5]] > gaps[[0, 2, 4]]).all()


def test_the_picture_is_a_png_and_the_same_for_the_same_seed() -> None:
    first, second = (made_rows("cb-t") for _ in range(2))
    png = dream_png(first)
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.format == "PNG"
        assert picture.size == Sheet(first).size
    assert png == dream_png(second)


def test_grey_frames_are_rendered_grey() -> None:
    rows = made_rows(None)
    grey = replace(rows, real=rows.real[..., :1], dream=rows.dream[..., :1])
    layout = Sheet(grey)
    picture = layout.draw()
    np.testing.assert_array_equal(cell(picture, layout, (1, 3), 0), enlarge(rows.real[1, 3], 8))


def test_rewards_take_space_only_if_there_are_any() -> None:
    rows = made_rows(None)
    none = replace(rows, reward=np.zeros_like(rows.reward))
    assert Sheet(rows).size[1] > Sheet(none).size[1]
    assert Sheet(none).draw().size == Sheet(none).size


def test_padding_is_left_blank() -> None:
    segment = counting_segment([{0}], STEPS)
    mask = torch.arange(STEPS)[None] < 5
    rows = dream_rows(
        counting_agent(), replace(segment, mask=mask), horizon=HORIZON, generator=None
    )
    blank = cell(Sheet(rows).draw(), Sheet(rows), (0, 6), 0)
    assert (blank == 255).all()


def test_every_token_has_its_colour_in_its_cell() -> None:
    grid = np.array([[3, 0], [15, -1]])
    rendered = render_tokens(grid, token_colours(16), (40, 44), LIGHT)
    colours = token_colours(16)
    assert rendered.shape == (40, 44, 3)
    np.testing.assert_array_equal(rendered[10, 12], colours[3])
    np.testing.assert_array_equal(rendered[10, 32], colours[0])
    np.testing.assert_array_equal(rendered[30, 12], colours[15])
    assert (rendered[30, 32] == 255).all()
    assert (rendered[:, [0, -1]] == 255).all()


def test_unchanged_tokens_are_faint_and_empty_cells_blank() -> None:
    grid, changed = np.array([[3, 0], [15, -1]]), np.array([[True, False], [False, False]])
    whole = render_tokens(grid, token_colours(16), (40, 40), LIGHT).astype(int)
    rendered = render_tokens(grid, token_colours(16), (40, 40), LIGHT, changed).astype(int)
    np.testing.assert_array_equal(rendered[:20, :20], whole[:20, :20])
    for rows, columns in ((slice(20), slice(20, 40)), (slice(20, 40), slice(20))):
        faint, full = 255 - rendered[rows, columns], 255 - whole[rows, columns]
        np.testing.assert_allclose(faint, FAINT * full, atol=2)
    assert (rendered[20:, 20:] == 255).all()


def test_a_random_dream_is_rendered_and_labelled_below_the_dream() -> None:
    rows = made_rows(None)
    both = replace(rows, random_dream=255 - rows.dream)
    layout = Sheet(both)
    picture = layout.draw()
    assert both.kinds == ["real", "dream", RANDOM_DREAM]
    rendered = cell(picture, layout, (1, 3), 2)
    np.testing.assert_array_equal(rendered, enlarge(255 - rows.dream[1, 3], 8))
    top, left = layout.y(1, 2), layout.left
    name = np.asarray(picture.convert("L").crop((0, top, left, top + layout.height)))
    assert (name < 128).any()
    assert (name[:, 0] == 255).all()


def test_shades_are_rendered_from_dark_to_light() -> None:
    grid = np.array([[0, 128], [255, -1]])
    rendered = render_tokens(grid, greys(256), (4, 4), LIGHT)
    background = Image.new("RGB", (1, 1), LIGHT.background).getpixel((0, 0))
    corners = [tuple(rendered[y, x].tolist()) for y, x in ((1, 1), (1, 3), (3, 1), (3, 3))]
    assert corners == [(0, 0, 0), (128, 128, 128), (255, 255, 255), background]


def test_token_colours_are_distinct_and_independent_of_the_vocabulary() -> None:
    colours = token_colours(1024)
    assert len(np.unique(colours, axis=0)) == 1024
    np.testing.assert_array_equal(token_colours(16), colours[:16])


def test_pixels_are_enlarged_to_squares() -> None:
    frame = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    large = enlarge(frame, 3)
    assert large.shape == (6, 6, 3)
    np.testing.assert_array_equal(large[::3, ::3], frame)
    np.testing.assert_array_equal(large[2::3, 1::3], frame)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "+1"), (-0.976, "\N{MINUS SIGN}0.98"), (0.5, "+0.5"), (-1200.0, "\N{MINUS SIGN}1200")],
)
def test_rewards_are_formatted_briefly(value: float, text: str) -> None:
    assert format_reward(value) == text


def test_frames_of_all_sizes_are_enlarged_to_about_the_same_size() -> None:
    rows, zeros = made_rows(None), np.zeros((2, STEPS, 96, 96, 3), np.uint8)
    large = replace(rows, real=zeros, dream=zeros)
    assert SIDE * Sheet(rows).factor == 128
    assert Sheet(large).factor == 1


@pytest.fixture
def rows() -> DreamRows:
    segment = counting_segment([{0}, {0, 3}], 6)
    return dream_rows(counting_agent(), segment, horizon=4, generator=None)


@pytest.mark.parametrize("suffix", ["webp", "gif"])
def test_every_step_is_shown_for_the_given_time(
    tmp_path: Path, rows: DreamRows, suffix: str
) -> None:
    path = write_dream(tmp_path / f"dream.{suffix}", rows, seconds=0.5)
    with Image.open(path) as animation:
        assert animation.n_frames == 6  # type: ignore[attr-defined]
        durations = []
        for time in range(6):
            animation.seek(time)
            animation.load()
            durations.append(animation.info["duration"])
    assert durations == [500] * 6


def test_each_row_is_imagined_in_its_own_steps(rows: DreamRows) -> None:
    imagined = rows.imagined
    np.testing.assert_array_equal(imagined[0], [False, False, True, True, True, True])
    np.testing.assert_array_equal(imagined[1], [False, False, True, False, False, True])


def test_a_random_dream_has_its_own_column(rows: DreamRows) -> None:
    wider = render_step(replace(rows, random_dream=rows.dream), 3)
    cell = SIDE * 12
    assert wider.width - render_step(rows, 3).width == cell + 10
    last, before = (
        np.asarray(wider)[-cell - 10 : -10, -right : -right + cell]
        for right in (cell + 10, 2 * cell + 20)
    )
    np.testing.assert_array_equal(last, before)


def test_no_partial_file_remains(tmp_path: Path, rows: DreamRows) -> None:
    write_dream(tmp_path / "dream.WEBP", rows)
    assert [path.name for path in tmp_path.iterdir()] == ["dream.WEBP"]
