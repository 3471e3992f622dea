from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from counting_agent import SIDE, counting_agent, counting_segment, recipe_agent
from numpy.typing import NDArray
from PIL import Image

from tokenworlds.core.errors import UserError
from tokenworlds.evaluation.dream_picture import (
    FAINT,
    Layout,
    draw_dream,
    draw_moment,
    draw_tiles,
    dreamt_rows,
    enlarge,
    signed,
    write_animation,
    write_dream,
)
from tokenworlds.evaluation.dreams import AT_RANDOM, DreamRows, dream_rows
from tokenworlds.evaluation.pictures import DARK, LIGHT, code_colours, shades

STEPS, HORIZON = 7, 5


def made_rows(name: str | None = "step-vq-m") -> DreamRows:
    agent = recipe_agent(name) if name else counting_agent()
    segment = counting_segment([{0, 4}, {0}], STEPS)
    generator = torch.Generator().manual_seed(0)
    return dream_rows(agent, segment, horizon=HORIZON, generator=generator)


def cell(picture: Image.Image, layout: Layout, at: tuple[int, int], line: int) -> NDArray[np.uint8]:
    x, y = layout.x(at[1]), layout.y(at[0], line)
    return np.asarray(picture.crop((x, y, x + layout.width, y + layout.height)))


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_every_line_shows_its_frames_to_the_pixel(theme: object) -> None:
    rows = made_rows()
    assert rows.coded is not None
    picture, layout = draw_dream(rows, theme), Layout.of(rows)  # type: ignore[arg-type]
    assert layout.factor == 8
    for at in np.ndindex(2, STEPS):
        np.testing.assert_array_equal(cell(picture, layout, at, 0), enlarge(rows.real[at], 8))
        decoded = enlarge(rows.coded.reconstruction[at], 8)
        np.testing.assert_array_equal(cell(picture, layout, at, 1), decoded)
    for stretch in rows.stretches:
        for time in range(stretch.dream, stretch.end):
            dreamt = enlarge(rows.dream[stretch.row, time], 8)
            np.testing.assert_array_equal(cell(picture, layout, (stretch.row, time), 4), dreamt)


def test_what_was_seen_is_fainter_where_the_dream_will_be() -> None:
    rows = made_rows(None)
    picture, layout = draw_dream(rows), Layout.of(rows)
    seen, real = cell(picture, layout, (0, 0), 1), cell(picture, layout, (0, 0), 0)
    assert (seen > real).all()


def test_frames_do_not_overlap_and_lie_within_the_picture() -> None:
    rows = made_rows()
    layout = Layout.of(rows)
    width, height = layout.size
    edges = [layout.span(time, time + 1) for time in range(STEPS)]
    assert all(right < left for (_, right), (left, _) in pairwise(edges))
    lines = [layout.y(panel, line) for panel in range(2) for line in range(5)]
    assert min(np.diff(lines)) > layout.height
    assert edges[-1][1] < width
    assert lines[-1] + layout.height < height


def test_the_dreamt_part_is_set_apart_by_a_wider_space() -> None:
    layout = Layout.of(made_rows())
    spaces = np.diff([layout.x(time) for time in range(STEPS)]) - layout.width
    # Row 0 is seen at 0 and 1, opens anew at 4 and is dreamt again from 6; row 1 from 2.
    assert (spaces[[1, 3, 5]] > spaces[[0, 2, 4]]).all()


def test_the_file_is_a_png_and_the_same_for_the_same_generator(tmp_path: Path) -> None:
    agent, segment = recipe_agent("cb-t"), counting_segment([{0}], STEPS)
    written = [
        write_dream(
            tmp_path / f"{name}.png",
            agent,
            segment,
            horizon=HORIZON,
            generator=torch.Generator().manual_seed(7),
        )
        for name in "ab"
    ]
    with Image.open(written[0]) as picture:
        assert picture.format == "PNG"
        rows = dream_rows(agent, segment, horizon=HORIZON, generator=None)
        assert picture.size == Layout.of(rows).size
    assert written[0].read_bytes() == written[1].read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"a.png", "b.png"}


def test_grey_frames_are_drawn_grey() -> None:
    rows = made_rows(None)
    grey = replace(rows, real=rows.real[..., :1], dream=rows.dream[..., :1])
    picture, layout = draw_dream(grey), Layout.of(grey)
    np.testing.assert_array_equal(cell(picture, layout, (1, 3), 0), enlarge(rows.real[1, 3], 8))


def test_rewards_are_told_only_where_there_are_any() -> None:
    rows = made_rows(None)
    none = replace(rows, reward=np.zeros_like(rows.reward))
    assert Layout.of(rows).size[1] > Layout.of(none).size[1]
    assert draw_dream(none).size == Layout.of(none).size


def test_padding_is_left_blank() -> None:
    segment = counting_segment([{0}], STEPS)
    mask = torch.arange(STEPS)[None] < 5
    rows = dream_rows(
        counting_agent(), replace(segment, mask=mask), horizon=HORIZON, generator=None
    )
    blank = cell(draw_dream(rows), Layout.of(rows), (0, 6), 0)
    assert (blank == 255).all()


def test_a_tile_has_the_colour_of_its_code_at_its_place() -> None:
    tiles = np.array([[3, 0], [15, -1]])
    drawn = draw_tiles(tiles, code_colours(16), (40, 44), LIGHT)
    colours = code_colours(16)
    assert drawn.shape == (40, 44, 3)
    np.testing.assert_array_equal(drawn[10, 12], colours[3])
    np.testing.assert_array_equal(drawn[10, 32], colours[0])
    np.testing.assert_array_equal(drawn[30, 12], colours[15])
    assert (drawn[30, 32] == 255).all()
    assert (drawn[:, [0, -1]] == 255).all()


def test_codes_that_did_not_change_are_faint_and_spare_places_blank() -> None:
    tiles, changed = np.array([[3, 0], [15, -1]]), np.array([[True, False], [False, False]])
    whole = draw_tiles(tiles, code_colours(16), (40, 40), LIGHT).astype(int)
    drawn = draw_tiles(tiles, code_colours(16), (40, 40), LIGHT, changed).astype(int)
    np.testing.assert_array_equal(drawn[:20, :20], whole[:20, :20])
    for rows, columns in ((slice(20), slice(20, 40)), (slice(20, 40), slice(20))):
        faint, full = 255 - drawn[rows, columns], 255 - whole[rows, columns]
        np.testing.assert_allclose(faint, FAINT * full, atol=2)
    assert (drawn[20:, 20:] == 255).all()


def test_a_dream_at_random_is_drawn_below_the_dream_and_named() -> None:
    rows = made_rows(None)
    both = replace(rows, at_random=255 - rows.dream)
    picture, layout = draw_dream(both), Layout.of(both)
    assert both.kinds == ["real", "dream", AT_RANDOM]
    drawn = cell(picture, layout, (1, 3), 2)
    np.testing.assert_array_equal(drawn, enlarge(255 - rows.dream[1, 3], 8))
    top, left = layout.y(1, 2), layout.left
    name = np.asarray(picture.convert("L").crop((0, top, left, top + layout.height)))
    assert (name < 128).any()
    assert (name[:, 0] == 255).all()


def test_numbers_are_drawn_from_dark_to_light() -> None:
    tiles = np.array([[0, 128], [255, -1]])
    drawn = draw_tiles(tiles, shades(256), (4, 4), LIGHT)
    ground = Image.new("RGB", (1, 1), LIGHT.background).getpixel((0, 0))
    corners = [tuple(drawn[y, x].tolist()) for y, x in ((1, 1), (1, 3), (3, 1), (3, 3))]
    assert corners == [(0, 0, 0), (128, 128, 128), (255, 255, 255), ground]


def test_no_two_codes_share_a_colour_and_none_changes_it_with_the_vocabulary() -> None:
    colours = code_colours(1024)
    assert len(np.unique(colours, axis=0)) == 1024
    np.testing.assert_array_equal(code_colours(16), colours[:16])


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
def test_rewards_take_few_letters(value: float, text: str) -> None:
    assert signed(value) == text


def test_a_frame_is_enlarged_to_about_the_same_size_whatever_it_measures() -> None:
    rows, zeros = made_rows(None), np.zeros((2, STEPS, 96, 96, 3), np.uint8)
    large = replace(rows, real=zeros, dream=zeros)
    assert SIDE * Layout.of(rows).factor == 128
    assert Layout.of(large).factor == 1


@pytest.fixture
def rows() -> DreamRows:
    segment = counting_segment([{0}, {0, 3}], 6)
    return dream_rows(counting_agent(), segment, horizon=4, generator=None)


@pytest.mark.parametrize("suffix", ["webp", "gif"])
def test_every_step_is_a_moment_that_lasts(tmp_path: Path, rows: DreamRows, suffix: str) -> None:
    path = write_animation(tmp_path / f"dream.{suffix}", rows, seconds=0.5)
    with Image.open(path) as animation:
        assert animation.n_frames == 6  # type: ignore[attr-defined]
        durations = []
        for moment in range(6):
            animation.seek(moment)
            animation.load()
            durations.append(animation.info["duration"])
    assert durations == [500] * 6


def test_rows_dream_each_in_their_time(rows: DreamRows) -> None:
    dreaming = np.array([dreamt_rows(rows, time) for time in range(6)]).T
    np.testing.assert_array_equal(dreaming[0], [False, False, True, True, True, True])
    np.testing.assert_array_equal(dreaming[1], [False, False, True, False, False, True])


def test_a_dream_at_random_has_a_column_of_its_own(rows: DreamRows) -> None:
    wider = draw_moment(replace(rows, at_random=rows.dream), 3)
    cell = SIDE * 12
    assert wider.width - draw_moment(rows, 3).width == cell + 10
    last, before = (
        np.asarray(wider)[-cell - 10 : -10, -right : -right + cell]
        for right in (cell + 10, 2 * cell + 20)
    )
    np.testing.assert_array_equal(last, before)


def test_a_file_is_whole_or_not_there(tmp_path: Path, rows: DreamRows) -> None:
    write_animation(tmp_path / "dream.WEBP", rows)
    assert [path.name for path in tmp_path.iterdir()] == ["dream.WEBP"]


def test_other_formats_are_refused(tmp_path: Path, rows: DreamRows) -> None:
    with pytest.raises(UserError, match=r"\.mp4"):
        write_animation(tmp_path / "dream.mp4", rows)
