"""The bars are as long as the costs."""

from pathlib import Path

import pytest
from matplotlib.patches import Rectangle
from measured_accounts import account
from PIL import Image

from tokenworlds.benchmarking.chart import chart_figure, write_chart
from tokenworlds.evaluation.pictures import DARK, LIGHT

ACCOUNTS = [
    account("storm", {"world": 1.0, "behaviour": 3.0}),
    account("iris", {"tokenizer": 2.0, "world": 4.0, "behaviour": 10.0}),
]


def test_a_bar_is_made_of_a_piece_for_each_learner_end_to_end() -> None:
    axes = chart_figure(ACCOUNTS, "a chart", LIGHT).axes[0]
    pieces = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    spans = [(piece.get_x(), piece.get_width()) for piece in pieces]
    # Tokenizer, world, behaviour, each of both recipes.
    assert spans == [(0, 0), (0, 4), (0, 2), (4, 8), (2, 6), (12, 20)]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["tokenizer", "world", "behaviour"]


def test_bars_are_named_and_say_their_sum() -> None:
    axes = chart_figure(ACCOUNTS, "a chart", LIGHT).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["storm", "iris"]
    assert [text.get_text() for text in axes.texts] == ["8.00", "32.0"]


def test_speeds_stand_beside_those_that_were_published() -> None:
    accounts = [*ACCOUNTS, account("step-vq-t", {"world": 2.0})]
    _, axes = chart_figure(accounts, "a chart", LIGHT).axes
    names = ["storm", "iris", "step-vq-t", "REM"]
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    full = [(round(bar.get_y()), bar.get_width()) for bar in bars if not bar.get_hatch()]
    hollow = [(round(bar.get_y()), bar.get_width()) for bar in bars if bar.get_hatch()]
    assert full == [(0, 4.0), (1, 1.0), (2, 8.0)]
    assert hollow == [(1, 1.0), (2, 9.7), (3, 4.37)]
    legend = axes.get_legend()
    assert legend is not None
    said = [text.get_text() for text in legend.get_texts()]
    assert said == ["measured here", "published: STEP-VQ, figure 2a, on an L40S"]


def test_without_the_yardstick_there_are_no_speeds() -> None:
    assert len(chart_figure(ACCOUNTS[:1], "a chart", DARK).axes) == 1


@pytest.mark.parametrize(("count", "height"), [(1, 340 + 84), (2, 2 * 340 + 84 * (2 + 3))])
def test_the_file_is_a_png_that_grows_with_the_bars(
    count: int, height: int, tmp_path: Path
) -> None:
    path = write_chart(tmp_path / "chart.png", ACCOUNTS[:count], "$no$ <math>")
    with Image.open(path) as picture:
        picture.load()
        assert (picture.format, picture.size) == ("PNG", (1600, height))
