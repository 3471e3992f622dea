import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from PIL import Image
from test_results import RESULT

from tokenworlds.evaluation.curves import (
    EVALUATION,
    TRAINING,
    curve_figure,
    is_wide,
    loss_png,
    loss_terms,
    select,
    smooth,
)
from tokenworlds.evaluation.pictures import DARK, LIGHT, figure_bytes
from tokenworlds.evaluation.results import Result

EVENTS: list[dict[str, Any]] = [
    {"agent_steps": 64, TRAINING: -0.5},
    {"agent_steps": 128, "world/loss/total": 3.0},
    {"agent_steps": 192, TRAINING: float("nan")},
    {"agent_steps": 256, EVALUATION: -0.25},
    {"agent_steps": 320, TRAINING: 0.5},
    {"agent_steps": 512, EVALUATION: 1},
]
LOSSES: list[dict[str, Any]] = [
    {"agent_steps": 10, "world/loss/total": 2.0, "world/loss/reward": 1.5, "world/code_usage": 0.5},
    {"agent_steps": 20, "world/loss/termination": 0.5, "behaviour/loss/actor": -0.1},
]


def axes_of(
    events: list[dict[str, Any]],
    best: float | None = None,
    final: Result | None = None,
) -> Axes:
    return curve_figure(events, "a run", best, final, LIGHT).axes[0]


def lines_of(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {
        str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata()))  # type: ignore[arg-type]
        for line in axes.lines
    }


def test_a_metric_is_read_from_the_events_with_a_finite_value() -> None:
    training, evaluation = select(EVENTS, TRAINING), select(EVENTS, EVALUATION)
    assert training.steps.tolist() == [64, 320]
    assert training.values.tolist() == [-0.5, 0.5]
    assert evaluation.steps.tolist() == [256, 512]
    assert len(select(EVENTS, "nothing").steps) == 0


@pytest.mark.parametrize("count", [1, 2, 5, 100])
@pytest.mark.parametrize("spread", [0.3, 2.0, 50.0])
def test_smoothing_keeps_a_constant(count: int, spread: float) -> None:
    np.testing.assert_allclose(smooth(np.full(count, 3.5), spread), 3.5)


def test_smoothing_uses_gaussian_weights() -> None:
    pulse = np.zeros(101)
    pulse[50] = 1.0
    smoothed = smooth(pulse, 2.0)
    assert smoothed.sum() == pytest.approx(1.0)
    assert smoothed[52] / smoothed[50] == pytest.approx(np.exp(-0.5))
    np.testing.assert_allclose(smoothed, smoothed[::-1])


def test_smoothing_reduces_noise_and_follows_a_slope_without_delay() -> None:
    slope = np.linspace(0, 1, 200)
    noisy = slope + np.random.default_rng(0).normal(size=200) * 0.3
    inner = slice(20, -20)
    assert np.abs(smooth(noisy, 5.0) - slope)[inner].max() < np.abs(noisy - slope)[inner].max() / 2
    np.testing.assert_allclose(smooth(slope, 5.0)[inner], slope[inner], atol=1e-12)


def test_the_figure_plots_the_returns_at_their_steps() -> None:
    lines = lines_of(axes_of(EVENTS))
    assert lines["evaluation"] == ([256, 512], [-0.25, 1])
    steps, values = lines["training, smoothed"]
    assert steps == [64, 320]
    np.testing.assert_allclose(values, smooth(np.array([-0.5, 0.5]), 2.0))


def test_the_final_evaluation_is_the_last_point() -> None:
    lines = lines_of(axes_of(EVENTS, final=RESULT))
    assert lines["evaluation"] == ([256, 512, 5000], [-0.25, 1, 0.5])
    assert lines["4 final episodes: 0.50 ± 0.50"] == ([5000], [0.5])


def test_best_and_random_are_labelled_horizontal_lines() -> None:
    axes = axes_of(EVENTS, best=1.0, final=RESULT)
    across = [line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 2]  # type: ignore[arg-type]
    assert [1.0, 1.0] in [list(y) for y in across]  # type: ignore[arg-type]
    assert [-0.5, -0.5] in [list(y) for y in across]  # type: ignore[arg-type]
    assert [text.get_text() for text in axes.texts] == ["best\n1", "random\n\N{MINUS SIGN}0.5"]


def test_the_axes_are_labelled_and_the_legend_names_every_curve() -> None:
    axes = axes_of(EVENTS, final=RESULT)
    legend = axes.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["training, smoothed", "evaluation", "4 final episodes: 0.50 ± 0.50"]
    assert axes.get_xlabel() == "agent steps"
    assert axes.get_ylabel() == "return"


def test_the_curve_is_a_png_of_the_documented_size() -> None:
    figure = curve_figure(EVENTS, "a run", 1.0, RESULT, LIGHT)
    with Image.open(io.BytesIO(figure_bytes(figure))) as picture:
        picture.load()
        assert (picture.format, picture.size) == ("PNG", (1600, 900))


@pytest.mark.parametrize("final", [None, RESULT, replace(RESULT, returns=(1.0,))])
def test_a_run_without_events_has_a_picture(final: Result | None) -> None:
    figure = curve_figure([], "$no$ <math>", None, final, DARK)
    assert figure_bytes(figure).startswith(b"\x89PNG")


def test_the_same_events_give_the_same_bytes() -> None:
    first, second = (curve_figure(EVENTS, "a run", None, None, LIGHT) for _ in range(2))
    assert figure_bytes(first) == figure_bytes(second)


def test_terms_are_collected_by_learner_with_the_total_last() -> None:
    assert loss_terms(LOSSES) == {
        "world": ["reward", "termination", "total"],
        "behaviour": ["actor"],
    }
    assert loss_terms([]) == {}


@pytest.mark.parametrize(
    ("values", "wide"),
    [([100.0, 1.0], True), ([10.0, 1.0], False), ([100.0, 0.0], False), ([5.0, -5.0], False)],
)
def test_only_positive_losses_with_a_wide_range_are_logarithmic(
    values: list[float], wide: bool
) -> None:
    assert is_wide(np.array(values)) == wide


@pytest.mark.parametrize("count", [1, 4, 5, 9])
def test_every_term_has_a_panel(count: int) -> None:
    terms = [f"term_{number}" for number in range(count)]
    events = [
        {"agent_steps": step, **{f"world/loss/{term}": 100.0 / step for term in terms}}
        for step in range(1, 50)
    ]
    with Image.open(io.BytesIO(loss_png(events, "world", terms))) as picture:
        picture.load()
        assert picture.width == 1600
        lines = {1: 1, 4: 1, 5: 2, 9: 3}[count]
        assert picture.height == round(200 * (1.75 * lines + 0.1))


def test_a_term_without_finite_values_has_an_empty_panel() -> None:
    events = [{"agent_steps": 1, "world/loss/reward": float("nan")}]
    assert loss_png(events, "world", ["reward"]).startswith(b"\x89PNG")
