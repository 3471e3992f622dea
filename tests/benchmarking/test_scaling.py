"""Axes of a recipe, curves along them, their exponents, and updates measured at a value."""

from dataclasses import replace

import pytest
from bench_examples import point

from tokenworlds.benchmarking import scaling
from tokenworlds.benchmarking.meters import ReferenceTask
from tokenworlds.benchmarking.report import Target
from tokenworlds.benchmarking.scaling import (
    AXES,
    Axis,
    AxisStart,
    Curve,
    Event,
    MeasureUpdate,
    Point,
    Skipped,
    axis_values,
    change,
    find_path,
    measure_curve,
    measure_scaling,
    read_at,
    small_base,
    update_meter,
)
from tokenworlds.core.config import variant
from tokenworlds.core.errors import UserError
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.recipe import Recipe

BY_NAME = {axis.name: axis for axis in AXES}
STEP_VQ = load("step-vq-m", "paper").recipe
NANO = load("step-vq-m", "nano", "catch").recipe
SMALL = {"learning.world.batch": 1, "learning.world.length": 2, "learning.behaviour.batch": 2}


@pytest.fixture(autouse=True)
def _short_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference task takes longer than all else."""
    monkeypatch.setattr(ReferenceTask, "convolve", lambda task: task.left.sum())
    monkeypatch.setattr(ReferenceTask, "multiply", lambda task: task.left.sum())


@pytest.mark.parametrize(
    ("name", "recipe", "values"),
    [
        ("batch", "step-vq-m", [1, 2, 4, 8, 16]),
        ("length", "iris", [8, 16, 32, 64]),
        ("resolution", "cb-m", [64, 96, 128]),
        ("vocabulary", "step-vq-m", [16, 32, 64, 128, 256]),
        ("vocabulary", "cb-m", [8, 16, 32, 64, 128]),
        ("vocabulary", "iris", [128, 256, 512, 1024, 2048]),
        ("vocabulary", "delta-iris", [256, 512, 1024, 2048, 4096]),
        ("vocabulary", "dreamer-v3", [4, 8, 16, 32, 64]),
        ("horizon", "storm", [4, 8, 16, 32]),
    ],
)
def test_an_axis_is_found_in_a_recipe(name: str, recipe: str, values: list[int]) -> None:
    axis, found = BY_NAME[name], load(recipe, "paper").recipe
    path = find_path(axis, found)
    assert path is not None
    assert axis_values(axis, found, path) == values


def test_an_axis_that_a_recipe_lacks_is_not_found() -> None:
    assert find_path(BY_NAME["vocabulary"], load("swm-continuous", "paper").recipe) is None
    assert find_path(BY_NAME["batch"], load("ppo", "paper").recipe) is None


def test_a_behaviour_that_learns_from_real_steps_has_no_axis() -> None:
    assert {find_path(axis, load("ppo", "paper").recipe) for axis in AXES} == {None}


def test_a_joint_learner_takes_the_place_of_world_and_behaviour() -> None:
    joint = load("dreamer-v3", "paper").recipe
    paths = {axis.name: find_path(axis, joint) for axis in AXES}
    assert (paths["batch"], paths["length"]) == ("learning.agent.batch", "learning.agent.length")
    assert paths["horizon"] == "behaviour.horizon"
    assert small_base(joint).learning["agent"].batch == 4
    learners = []

    def measure(recipe: Recipe, learner: str, value: int) -> Point:
        learners.append(learner)
        return point(value, 0.01)

    target = Target("dreamer-v3", "paper", joint, EnvSpec("catch", "", joint.resolution))
    measure_scaling(target, measure, lambda event: None)
    assert set(learners) == {"agent"}


def test_a_value_that_the_recipe_rejects_is_an_error() -> None:
    with pytest.raises(UserError, match="frames takes 1 or more, not 0"):
        change(load("swm", "paper").recipe, "world.frames", 0)


def test_the_base_is_small_and_never_larger_than_the_recipe() -> None:
    world = small_base(STEP_VQ).learning["world"]
    assert (world.batch, world.length) == (4, 16)
    nano = load("step-vq-m", "nano").recipe
    assert small_base(nano).learning["behaviour"].length == nano.learning["behaviour"].length
    tiny = replace(nano, learning={**nano.learning, "world": replace(world, batch=2)})
    assert small_base(tiny).learning["world"].batch == 2


def power_law(fixed: float, power: float, path: str) -> MeasureUpdate:
    """A fixed time, plus a millisecond and 1000 bytes times the value to a power."""

    def measure(recipe: Recipe, learner: str, value: int) -> Point:
        assert value == read_at(recipe, path)
        return point(value, fixed + 1e-3 * value**power, memory=round(1000 * value**power))

    return measure


def trace(axis: Axis, measure: MeasureUpdate) -> Curve:
    events: list[Event] = []
    path = find_path(axis, STEP_VQ)
    assert path is not None
    curve = measure_curve(axis, path, STEP_VQ, measure, events.append)
    assert curve.points == [event for event in events if isinstance(event, Point)]
    assert curve.skipped == [event for event in events if isinstance(event, Skipped)]
    return curve


@pytest.mark.parametrize("power", [1, 2])
def test_the_exponent_of_a_cost_is_found(power: int) -> None:
    curve = trace(BY_NAME["length"], power_law(0.0, power, "learning.world.length"))
    assert [point.value for point in curve.points] == [8, 16, 32, 64]
    assert curve.skipped == []
    assert curve.exponents["cal"] == pytest.approx((power, power))
    assert curve.exponents["memory"] == pytest.approx((power, power))
    assert curve.exponents["parameters"] == (0.0, 0.0)


def test_a_cost_quadratic_in_the_resolution_is_linear_in_pixels() -> None:
    curve = trace(BY_NAME["resolution"], power_law(0.0, 2, "resolution"))
    assert curve.exponents["cal"] == pytest.approx((1.0, 1.0))


def test_a_fixed_cost_matters_less_at_the_end_of_a_curve() -> None:
    curve = trace(BY_NAME["batch"], power_law(0.004, 1, "learning.world.batch"))
    exponents = curve.exponents["cal"]
    assert exponents is not None
    overall, last = exponents
    assert overall < last
    # 12 ms with 8 rows and 20 ms with 16.
    assert last == pytest.approx(0.737, abs=1e-3)


def test_values_beyond_time_or_memory_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 cal for one row might be 64 for two; at 1000 bytes per row, 8 rows might take 16000."""
    curve = trace(BY_NAME["batch"], power_law(4.0, 0, "learning.world.batch"))
    assert [point.value for point in curve.points] == [1]
    assert {skip.reason for skip in curve.skipped} == {"an update might take more than 60 cal"}
    monkeypatch.setattr(scaling, "available_memory", lambda: 31_000)
    curve = trace(BY_NAME["batch"], power_law(0.0, 1, "learning.world.batch"))
    assert [point.value for point in curve.points] == [1, 2, 4]
    assert all("more than half of the available memory" in skip.reason for skip in curve.skipped)


def test_values_that_do_not_fit_the_recipe_are_skipped_with_the_reason() -> None:
    def measure(recipe: Recipe, learner: str, value: int) -> Point:
        if recipe.resolution > 64:
            raise UserError("no such frames")
        return point(value, 0.1)

    curve = trace(BY_NAME["resolution"], measure)
    assert len(curve.points) == 1
    assert curve.skipped == [Skipped(96, "no such frames"), Skipped(128, "no such frames")]
    assert set(curve.exponents.values()) == {None}


def test_an_update_is_measured_at_the_resolution_of_its_recipe() -> None:
    measure = update_meter(EnvSpec("catch", "", 64), 0.001)
    small = measure(variant(NANO, SMALL), "world", 64)
    large = measure(variant(NANO, {**SMALL, "resolution": 96}), "world", 96)
    assert (small.measurement.batch, small.measurement.steps) == (1, 2)
    assert small.measurement.seconds.repeats >= 3
    assert 2.0 < large.measurement.flops / small.measurement.flops < 2.5
    # 64 and 144 grid cells of 16 codes, predicted by a linear layer from 128 numbers.
    assert small.discretisation is not None
    assert large.discretisation is not None
    assert large.discretisation - small.discretisation == (144 - 64) * 16 * (128 + 1)


def test_a_recipe_without_a_prior_has_no_discretisation_parameters() -> None:
    recipe = load("iris", "nano", "catch").recipe
    measure = update_meter(EnvSpec("catch", "", recipe.resolution), 0.001)
    changes = {"learning.world.batch": 1, "learning.world.length": 2}
    assert measure(variant(recipe, changes), "world", 2).discretisation is None
    with pytest.raises(UserError, match=r"more than world.sequence.positions"):
        measure(variant(recipe, {**changes, "learning.world.length": 500}), "world", 500)


def test_every_axis_is_measured_and_missing_ones_are_listed() -> None:
    events: list[Event] = []
    recipe = load("swm-continuous", "nano", "catch").recipe
    env = EnvSpec("catch", "", recipe.resolution)
    target = Target("swm-continuous", "nano", recipe, env)
    report = measure_scaling(
        target, lambda recipe, learner, value: point(value, 0.05), events.append
    )
    axes = [curve.axis for curve in report.curves]
    assert axes == ["batch", "length", "resolution", "horizon"]
    assert report.missing_axes == ["vocabulary"]
    starts = [event for event in events if isinstance(event, AxisStart)]
    assert [(start.axis.name, start.path is not None) for start in starts] == [
        *((name, True) for name in ("batch", "length", "resolution")),
        ("vocabulary", False),
        ("horizon", True),
    ]
    curves = [event for event in events if isinstance(event, Curve)]
    assert [len(curve.points) for curve in curves][-2:] == [3, 4]
