from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from counting_agent import SIDE, counting_agent, counting_segment
from PIL import Image

from tokenworlds.core.errors import UserError
from tokenworlds.evaluation.dream_animation import draw_moment, dreamt_rows, write_animation
from tokenworlds.evaluation.dream_rows import DreamRows, dream_rows


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
