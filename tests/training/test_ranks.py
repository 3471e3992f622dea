"""Two ranks compute what one process computes with the same batch, for every recipe."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from rank_processes import finish, start
from torch import Tensor

from tokenworlds.recipes.catalogue import RECIPES

EVERYDAY = (
    *("delta-iris", "dreamer-v3", "git-storm", "git-storm-vq", "iris", "ppo", "storm"),
    *("swm", "swm-continuous", "step-vq-m", "step-vq-t", "cb-m"),
    # Lookup-free quantisation has a loss of the mean over the batch; no recipe chooses these.
    *("step-vq-m+world.tokenizer=lfq", "step-vq-m+world.tokenizer=residual_vq"),
)
OTHERS = tuple(name for name in RECIPES if name not in EVERYDAY)
SCRIPT = str(Path(__file__).with_name("rank_updates.py"))


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What one process and both ranks of a pair computed, by recipe."""
    precision, names = request.param
    folder = tmp_path_factory.mktemp("ranks")
    words = [SCRIPT, str(folder), precision, *names]
    finish([*start(words, ranks=1), *start(words, ranks=2)])
    return [torch.load(folder / f"rank-{name}.pt") for name in ("0-of-1", "0-of-2", "1-of-2")]


def cases(names: tuple[str, ...], precision: str, *marks: pytest.MarkDecorator) -> Any:
    return [
        pytest.param((precision, names), name, marks=marks, id=f"{precision}-{name}")
        for name in names
    ]


each_recipe = pytest.mark.parametrize(
    ("results", "name"),
    [*cases(EVERYDAY, "double"), *cases(OTHERS, "double", pytest.mark.slow)],
    indirect=["results"],
    scope="module",
)


@each_recipe
def test_two_ranks_compute_what_one_process_computes(results: Any, name: str) -> None:
    """Losses, gradients, weights, averages, generators, samplers, caches and replay."""
    alone, first, _ = (result["found"][name] for result in results)
    assert alone.keys() == first.keys()
    differences = {what: apart(alone[what], first[what]) for what in alone}
    assert {what: found for what, found in differences.items() if found > 1e-8} == {}


def apart(left: Tensor, right: Tensor) -> float:
    """The largest difference, relative to the largest number if that is above 1."""
    assert left.shape == right.shape
    if not left.numel():
        return 0.0
    largest = max(1.0, float(left.double().abs().max()))
    return float((left.double() - right.double()).abs().max()) / largest


@pytest.mark.parametrize("results", [("double", EVERYDAY)], indirect=True, scope="module")
def test_codebooks_average_and_revive_over_all_ranks(results: Any) -> None:
    alone, first, second = (result["found"]["codebooks"] for result in results)
    assert max(apart(alone[what], first[what]) for what in alone) < 1e-12
    assert all(torch.equal(first[what], second[what]) for what in first)


@each_recipe
def test_both_ranks_hold_the_same_bits(results: Any, name: str) -> None:
    _, first, second = (result["found"][name] for result in results)
    assert [what for what in first if not torch.equal(first[what], second[what])] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("results", "name"), cases(tuple(RECIPES), "single"), indirect=["results"], scope="module"
)
def test_the_first_update_differs_by_rounding(results: Any, name: str) -> None:
    """Sums in another order. Later updates may differ more: Adam moves a weight whose exact
    gradient is 0 by its whole rate, in the direction of the rounding."""
    alone, first, _ = (result["found"][name] for result in results)
    learner = next(what.split()[2] for what in alone if what.startswith("gradient 0"))
    for what in alone:
        if what.startswith(f"metric 0 {learner}/"):
            assert apart(alone[what], first[what]) < 1e-5, what
    gradients = [what for what in alone if what.startswith(f"gradient 0 {learner} ")]
    difference = [(alone[what] - first[what]).double() for what in gradients]
    assert norm(difference) < 2e-5 * norm([alone[what].double() for what in gradients])


def norm(tensors: list[Tensor]) -> float:
    return math.sqrt(sum(float(each.square().sum()) for each in tensors))


@each_recipe
def test_updates_move_weights(results: Any, name: str) -> None:
    """Otherwise equal weights could be initial ones."""
    gradients = [value for what, value in results[1]["found"][name].items() if "gradient" in what]
    assert norm(gradients) > 0


@pytest.mark.parametrize("results", [("double", EVERYDAY)], indirect=True, scope="module")
def test_an_environment_that_fails_on_one_rank_is_reported_on_all(results: Any) -> None:
    _, first, second = (result["failure"] for result in results)
    assert first == second
    assert "failed at step 1 of game 0" in first
