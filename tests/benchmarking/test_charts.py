"""Bars of costs and speedups, and curves of scaling."""

from pathlib import Path

import numpy as np
import pytest
from bench_examples import report, scaling_report
from matplotlib.patches import Rectangle
from PIL import Image

from tokenworlds.benchmarking.charts import cost_figure, scaling_figure, write_figure
from tokenworlds.benchmarking.scaling import AXES

REPORTS = [
    report("storm", {"world": 1.0, "behaviour": 3.0}),
    report("iris", {"tokenizer": 2.0, "world": 4.0, "behaviour": 10.0}),
]


def test_a_bar_is_stacked_from_the_learners() -> None:
    axes = cost_figure(REPORTS, "a chart").axes[0]
    pieces = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    spans = [(piece.get_x(), piece.get_width()) for piece in pieces]
    # Tokenizer, world and behaviour of both recipes.
    assert spans == [(0, 0), (0, 4), (0, 2), (4, 8), (2, 6), (12, 20)]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["tokenizer", "world", "behaviour"]


def test_bars_are_labelled_with_names_and_totals() -> None:
    axes = cost_figure(REPORTS, "a chart").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["storm", "iris"]
    assert [text.get_text() for text in axes.texts] == ["8.00", "32.0"]


def test_speedups_are_drawn_beside_the_published_ones() -> None:
    reports = [*REPORTS, report("step-vq-t", {"world": 2.0})]
    _, axes = cost_figure(reports, "a chart").axes
    names = ["storm", "iris", "step-vq-t", "REM"]
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    filled = [(round(bar.get_y()), bar.get_width()) for bar in bars if not bar.get_hatch()]
    hatched = [(round(bar.get_y()), bar.get_width()) for bar in bars if bar.get_hatch()]
    assert filled == [(0, 4.0), (1, 1.0), (2, 8.0)]
    assert hatched == [(1, 1.0), (2, 9.7), (3, 4.37)]
    legend = axes.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["measured here", "published: STEP-VQ, figure 2a, on an L40S"]


def test_without_the_baseline_there_are_no_speedups() -> None:
    assert len(cost_figure(REPORTS[:1], "a chart").axes) == 1


@pytest.mark.parametrize(("count", "height"), [(1, 340 + 84), (2, 2 * 340 + 84 * (2 + 3))])
def test_the_file_is_a_png_that_grows_with_the_bars(
    count: int, height: int, tmp_path: Path
) -> None:
    path = write_figure(tmp_path / "chart.png", cost_figure(REPORTS[:count], "$no$ <math>"))
    with Image.open(path) as picture:
        picture.load()
        assert (picture.format, picture.size) == ("PNG", (1600, height))


def test_a_panel_has_a_curve_for_each_recipe_with_the_axis() -> None:
    reports = [scaling_report("a"), scaling_report("b", discretisation=None)]
    figure = scaling_figure(reports, "a chart")
    panels = {(axes.get_xlabel(), axes.get_title("left")): axes for axes in figure.axes}
    assert len(panels) == 2 * len(AXES) + 2
    batch = panels["batch", "cal per update"]
    curves = [line for line in batch.get_lines() if line.get_marker() != "None"]
    assert [line.get_label() for line in curves] == ["a (paper)", "b (paper)"]
    assert [np.asarray(line.get_ydata()).tolist() for line in curves] == [[0.2, 0.4, 0.8]] * 2
    assert [text.get_text() for text in batch.texts] == ["1.00", "1.00"]
    # The dots lead to the last point in proportion to the square of the side.
    dots = panels["resolution", "MiB per update"].get_lines()[1].get_ydata()
    assert np.asarray(dots).tolist() == pytest.approx([4 / 9, 1.0])
    assert len(panels["resolution", "million parameters"].get_lines()) == 2
    assert [text.get_text() for text in panels["length", "cal per update"].texts] == ["none"]


def test_the_scaling_chart_is_a_png(tmp_path: Path) -> None:
    figure = scaling_figure([scaling_report("a")], "$no$ <math>")
    path = write_figure(tmp_path / "growth.png", figure)
    with Image.open(path) as picture:
        picture.load()
        assert picture.format == "PNG"
