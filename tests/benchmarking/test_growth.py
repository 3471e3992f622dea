"""Curves are measured as far as they fit, and the power that they follow is found."""

from dataclasses import replace
from functools import partial

import pytest
from measured_curves import update

from tokenworlds.benchmarking import growth
from tokenworlds.benchmarking.axes import AXES, Axis, base_of, path_of, read_at, values_of
from tokenworlds.benchmarking.growth import (
    Growth,
    Omission,
    Point,
    Take,
    Update,
    change,
    trace_curve,
    try_value,
)
from tokenworlds.core.errors import UserError
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.recipe import Recipe

BY_NAME = {axis.name: axis for axis in AXES}
STEP_VQ = load("step-vq-m", "paper").recipe


@pytest.mark.parametrize(
    ("name", "recipe", "values"),
    [
        ("batch", "step-vq-m", [1, 2, 4, 8, 16]),
        ("length", "iris", [8, 16, 32, 64]),
        ("resolution", "cb-m", [64, 96, 128]),
        ("codes", "step-vq-m", [16, 32, 64, 128, 256]),
        ("codes", "cb-m", [8, 16, 32, 64, 128]),
        ("codes", "iris", [128, 256, 512, 1024, 2048]),
        ("codes", "delta-iris", [256, 512, 1024, 2048, 4096]),
        ("horizon", "storm", [4, 8, 16, 32]),
    ],
)
def test_an_axis_is_found_where_a_recipe_keeps_it(
    name: str, recipe: str, values: list[int]
) -> None:
    axis, found = BY_NAME[name], load(recipe, "paper").recipe
    path = path_of(axis, found)
    assert path is not None
    assert values_of(axis, found, path) == values


def test_an_axis_that_a_recipe_does_not_have_is_not_found() -> None:
    assert path_of(BY_NAME["codes"], load("swm-continuous", "paper").recipe) is None
    assert path_of(BY_NAME["batch"], load("ppo", "paper").recipe) is None


def test_who_learns_from_real_steps_has_a_horizon_in_name_only() -> None:
    assert {path_of(axis, load("ppo", "paper").recipe) for axis in AXES} == {None}


def test_a_value_that_a_part_refuses_is_left_out() -> None:
    recipe = load("swm", "paper").recipe
    found = try_value(0, partial(change, recipe, "world.frames", 0), "world", [], unreachable)
    assert found == Omission(0, "frames takes 1 or more, not 0")


def unreachable(recipe: Recipe, learner: str) -> Update:
    raise AssertionError(learner)


def test_the_base_is_small_and_never_larger_than_the_recipe() -> None:
    world = base_of(STEP_VQ).learning["world"]
    assert (world.batch, world.length) == (4, 16)
    nano = load("step-vq-m", "nano").recipe
    assert base_of(nano).learning["behaviour"].length == nano.learning["behaviour"].length
    tiny = replace(nano, learning={**nano.learning, "world": replace(world, batch=2)})
    assert base_of(tiny).learning["world"].batch == 2


def taking(fixed: float, power: float, path: str) -> Take:
    """Some seconds in any case, and thousandths of them for the value to a power."""

    def take(recipe: Recipe, learner: str) -> Update:
        value = read_at(recipe, path)
        return update(fixed + 1e-3 * value**power, memory=round(1000 * value**power))

    return take


def trace(axis: Axis, take: Take) -> tuple[list[Point], list[Omission], dict[str, Growth | None]]:
    told: list[Point | Omission] = []
    path = path_of(axis, STEP_VQ)
    assert path is not None
    curve = trace_curve(axis, path, STEP_VQ, take, told.append)
    points = [found for found in told if isinstance(found, Point)]
    omissions = [found for found in told if isinstance(found, Omission)]
    assert (curve.points, curve.left_out) == (points, omissions)
    return points, omissions, dict(curve.growth)


def powers(found: Growth | None) -> tuple[float, float]:
    assert found is not None
    return found.overall, found.end


@pytest.mark.parametrize("power", [1, 2])
def test_the_power_of_a_cost_is_found(power: int) -> None:
    points, omissions, found = trace(BY_NAME["length"], taking(0.0, power, "learning.world.length"))
    assert [point.value for point in points] == [8, 16, 32, 64]
    assert omissions == []
    assert powers(found["cal"]) == pytest.approx((power, power))
    assert powers(found["memory"]) == pytest.approx((power, power))
    assert powers(found["parameters"]) == (0.0, 0.0)


def test_frames_grow_with_the_square_of_their_side_which_is_linear_in_pixels() -> None:
    _, _, found = trace(BY_NAME["resolution"], taking(0.0, 2, "resolution"))
    assert powers(found["cal"]) == pytest.approx((1.0, 1.0))


def test_what_is_fixed_shows_less_at_the_end_of_a_curve() -> None:
    _, _, found = trace(BY_NAME["batch"], taking(0.004, 1, "learning.world.batch"))
    overall, end = powers(found["cal"])
    assert overall < end
    # 12 thousandths with 8 rows and 20 with 16.
    assert end == pytest.approx(0.737, abs=1e-3)


def test_values_beyond_time_or_memory_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 cal for one row might be 64 for two; with 1000 bytes for each, 8 might take 16000."""
    slow = taking(8.0, 0, "learning.world.batch")
    points, omissions, _ = trace(BY_NAME["batch"], slow)
    assert [point.value for point in points] == [1]
    assert {omission.why for omission in omissions} == {"an update might take more than 60 cal"}
    monkeypatch.setattr(growth, "available", lambda: 31_000)
    points, omissions, _ = trace(BY_NAME["batch"], taking(0.0, 1, "learning.world.batch"))
    assert [point.value for point in points] == [1, 2, 4]
    assert all("more than half of the memory" in omission.why for omission in omissions)


def test_values_that_do_not_fit_the_recipe_are_left_out_with_the_reason() -> None:
    def take(recipe: Recipe, learner: str) -> Update:
        if recipe.resolution > 64:
            raise UserError("no such frames")
        return update(0.1)

    points, omissions, found = trace(BY_NAME["resolution"], take)
    assert len(points) == 1
    assert omissions == [Omission(96, "no such frames"), Omission(128, "no such frames")]
    assert set(found.values()) == {None}
