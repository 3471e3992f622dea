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


def test_bars_are_named_and_say_their_sum_and_speed() -> None:
    axes = chart_figure(ACCOUNTS, "a chart", LIGHT).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["storm", "iris"]
    times = "\N{MULTIPLICATION SIGN} iris"
    assert [text.get_text() for text in axes.texts] == [
        f"8.00   4.00{times}",
        f"32.0   1.00{times}",
    ]
    alone = chart_figure(ACCOUNTS[:1], "a chart", DARK).axes[0]
    assert [text.get_text() for text in alone.texts] == ["8.00"]


@pytest.mark.parametrize("count", [1, 2])
def test_the_file_is_a_png_that_grows_with_the_bars(count: int, tmp_path: Path) -> None:
    path = write_chart(tmp_path / "chart.png", ACCOUNTS[:count], "$no$ <math>")
    with Image.open(path) as picture:
        picture.load()
        assert (picture.format, picture.size) == ("PNG", (1600, 340 + 84 * count))
