"""Updates along the axes are those of the recipe, and are told in lines and in a picture."""

from pathlib import Path

import numpy as np
import pytest
from measured_curves import curve, survey, update
from PIL import Image

from tokenworlds.benchmarking.axes import AXES, base_of
from tokenworlds.benchmarking.calibration import Workload
from tokenworlds.benchmarking.growth import Omission, Point
from tokenworlds.benchmarking.scaling import Listener, take_survey, update_taker
from tokenworlds.benchmarking.scaling_chart import chart_figure, write_chart
from tokenworlds.benchmarking.scaling_table import (
    COLUMNS,
    axis_line,
    growth_lines,
    opening,
    point_line,
)
from tokenworlds.benchmarking.session import Candidate
from tokenworlds.core.config import variant
from tokenworlds.core.errors import UserError
from tokenworlds.envs.spec import EnvSpec
from tokenworlds.evaluation.pictures import LIGHT
from tokenworlds.recipes.catalogue import load

NANO = load("step-vq-m", "nano", "catch").recipe
SMALL = {"learning.world.batch": 1, "learning.world.length": 2, "learning.behaviour.batch": 2}


@pytest.fixture(autouse=True)
def _small_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The unit takes longer than all else; its own test knows its size."""
    monkeypatch.setattr(Workload, "convolve", lambda workload: workload.left.sum())
    monkeypatch.setattr(Workload, "multiply", lambda workload: workload.left.sum())


def test_an_update_is_measured_on_the_frames_of_its_recipe() -> None:
    take = update_taker(EnvSpec("catch", "", 64), 0.001)
    small = take(variant(NANO, SMALL), "world")
    large = take(variant(NANO, {**SMALL, "resolution": 96}), "world")
    assert (small.batch, small.steps) == (1, 2)
    assert small.seconds.repeats >= 3
    assert 2.0 < large.flops / small.flops < 2.5
    # 64 and 144 sites of 16 codes, foreseen by a linear layer from 128 numbers.
    assert small.discretisation is not None
    assert large.discretisation is not None
    assert large.discretisation - small.discretisation == (144 - 64) * 16 * (128 + 1)


def test_a_recipe_whose_codes_have_no_maps_tells_of_no_path() -> None:
    recipe = load("iris", "nano", "catch").recipe
    take = update_taker(EnvSpec("catch", "", recipe.resolution), 0.001)
    changes = {"learning.world.batch": 1, "learning.world.length": 2}
    assert take(variant(recipe, changes), "world").discretisation is None
    with pytest.raises(UserError, match=r"more than world.sequence.positions"):
        take(variant(recipe, {**changes, "learning.world.length": 500}), "world")


def test_a_survey_goes_along_every_axis_and_tells_of_those_that_are_not_there() -> None:
    told: list[str] = []
    listener = Listener(
        axis=lambda axis, path: told.append(f"{axis.name} {path is not None}"),
        point=lambda found: None,
        curve=lambda curve: told.append(f"{len(curve.points)} points"),
    )
    recipe = load("swm-continuous", "nano", "catch").recipe
    env = EnvSpec("catch", "", recipe.resolution)
    candidate = Candidate("swm-continuous", "nano", recipe, env)
    found = take_survey(candidate, lambda *_: update(0.1), listener)
    assert [curve.axis for curve in found.curves] == ["batch", "length", "resolution", "horizon"]
    assert found.without == ["codes"]
    assert told[-4:] == ["3 points", "codes False", "horizon True", "4 points"]


def test_points_stand_under_their_columns_and_powers_under_points() -> None:
    head, line = axis_line(AXES[0], "somewhere"), point_line(Point(4, update(0.25)))
    assert len(head.strip("\n")) == len(line) == 12 + len(COLUMNS)
    values = ["4", "250", "ms", "±10%", "0.500", "3.00", "1", "MiB", "5,000,000", "2,000,000"]
    assert line.split() == values
    lines = list(growth_lines(curve("batch", 1, 2)))
    assert [len(each) for each in lines] == [len(line)] * 2
    assert lines[1].split() == ["at", "its", "end", *["1.00"] * 5]
    assert list(growth_lines(curve("batch", 1))) == []
    assert point_line(Omission(8, "it is too much")).endswith("left out: it is too much")
    assert axis_line(AXES[0], None) == "\n  batch: this recipe has none to vary"


def test_the_base_is_told_first() -> None:
    candidate = Candidate("step-vq-m", "nano", NANO, EnvSpec("catch", "", 64))
    assert base_of(NANO).learning["world"].batch == 4
    said = "\nstep-vq-m (nano): 4 x 16 for world, 32 x 2 for behaviour, horizon 8"
    assert opening(candidate) == said


def test_a_panel_has_a_curve_for_each_recipe_that_has_the_axis() -> None:
    figure = chart_figure([survey("a"), survey("b", codes=None)], "a chart", LIGHT)
    panels = {(axes.get_xlabel(), axes.get_title("left")): axes for axes in figure.axes}
    assert len(panels) == 2 * len(AXES) + 2
    batch = panels["batch", "cal for an update"]
    drawn = [line for line in batch.get_lines() if line.get_marker() != "None"]
    assert [line.get_label() for line in drawn] == ["a (paper)", "b (paper)"]
    assert [np.asarray(line.get_ydata()).tolist() for line in drawn] == [[0.2, 0.4, 0.8]] * 2
    assert [text.get_text() for text in batch.texts] == ["1.00", "1.00"]
    # Dots lead to the last point as growth with the square of the side would.
    dots = panels["resolution", "MiB for an update"].get_lines()[1].get_ydata()
    assert np.asarray(dots).tolist() == pytest.approx([4 / 9, 1.0])
    path = panels["resolution", "million parameters"]
    assert len(path.get_lines()) == 2
    assert [text.get_text() for text in panels["length", "cal for an update"].texts] == ["none"]


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    path = write_chart(tmp_path / "growth.png", [survey("a")], "$no$ <math>")
    with Image.open(path) as picture:
        picture.load()
        assert picture.format == "PNG"
