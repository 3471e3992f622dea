"""IRIS and Δ-IRIS against the numbers of their released code."""

from collections.abc import Mapping
from functools import reduce
from typing import Any

import pytest
import torch
from iris_numbers import DELTA, DIFFERENT, IRIS

from tokenworlds.agent import Agent
from tokenworlds.core.config import variant
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.nets.optimisers import linear_weights
from tokenworlds.recipes.catalogue import RECIPES, load
from tokenworlds.runs.recipe import Recipe, build_schedule
from tokenworlds.training.dry_run import dry_run, untrained_positions
from tokenworlds.training.summary import count, summarise

PARTS = ("tokenizer", "world", "behaviour")
ATARI, CRAFTER = "atari:Seaquest", "crafter"
TOKENS = ("iris", "iris-64", "delta-iris", "delta-iris-no-image-tokens")

# Counted in the released networks: trainable parameters, those of IRIS without LPIPS, and those
# that decay.
COUNTS = {
    ("iris", ATARI, 18): (4_027_523, 8_451_077, 3_225_139),
    ("delta-iris", ATARI, 18): (4_126_643, 3_580_841, 3_615_427),
    ("delta-iris", CRAFTER, 17): (5_409_611, 11_948_457, 3_745_216),
}
DECAYED = {
    ("iris", ATARI, 18): (0, 8_193_280, 0),
    ("delta-iris", ATARI, 18): (0, 2_819_328, 0),
    ("delta-iris", CRAFTER, 17): (131_072, 10_879_488, 0),
}
EPOCHS = {
    ("iris", ATARI): (600, 100_000, (119_000, 115_000, 110_000)),
    ("delta-iris", ATARI): (600, 100_000, (119_000, 66_000, 105_000)),
    ("delta-iris", CRAFTER): (1_000, 10_000_000, (504_500, 502_000, 500_000)),
}


def recipe(name: str, env: str | None = None, size: str = "paper") -> Recipe:
    return load(name, size, env).recipe


def at(found: Any, path: str) -> Any:
    """The value at a dotted path."""

    def descend(value: Any, name: str) -> Any:
        return value[name] if isinstance(value, Mapping) else getattr(value, name)

    return reduce(descend, path.split("."), found)


def agent(found: Recipe, space: ActionSpace) -> Agent:
    torch.manual_seed(0)
    return Agent.build(found, FrameShape(found.resolution, found.resolution), space)


@pytest.mark.parametrize("case", COUNTS)
def test_parameters(case: tuple[str, str, int]) -> None:
    name, env, actions = case
    found = recipe(name, env)
    parts = agent(found, ActionSpace(actions)).trainables(None)
    assert tuple(count(parts[part].module) for part in PARTS) == COUNTS[case]
    decayed = []
    for part in PARTS:
        named = dict(parts[part].module.named_parameters())
        kept = (
            linear_weights(parts[part].module)
            if at(found.learning, f"{part}.optimiser.decay")
            else ()
        )
        decayed.append(sum(named[weight].numel() for weight in kept))
    assert tuple(decayed) == DECAYED[case]


@pytest.mark.parametrize("case", EPOCHS)
def test_updates(case: tuple[str, str]) -> None:
    epochs, steps, updates = EPOCHS[case]
    schedule: Any = build_schedule(recipe(*case))
    assert schedule.rounds == epochs
    assert schedule.goal.steps == steps
    assert tuple(schedule.goal.updates[part] for part in PARTS) == updates


def test_the_numbers_of_iris() -> None:
    found = recipe("iris", ATARI)
    assert {path: at(found, path) for path in IRIS} == IRIS


@pytest.mark.parametrize(("env", "column"), [(ATARI, 0), (CRAFTER, 1)])
def test_the_numbers_of_delta_iris(env: str, column: int) -> None:
    found = recipe("delta-iris", env)
    assert {path: at(found, path) for path in DELTA} == DELTA
    expected = {path: values[column] for path, values in DIFFERENT.items()}
    assert {path: at(found, path) for path in DIFFERENT} == expected


@pytest.mark.parametrize("case", EPOCHS)
def test_the_optimisers(case: tuple[str, str]) -> None:
    """Adam, 1e-4, gradient norm 10; only the tokenizer and the world have weight decay."""
    for part, learning in recipe(*case).learning.items():
        optimiser = learning.optimiser
        assert (optimiser.kind, optimiser.rate, optimiser.clip) == ("adam", 1e-4, 10.0)
        assert (optimiser.betas, optimiser.epsilon, optimiser.warm_up) == ((0.9, 0.999), 1e-8, 0)
        if part != "tokenizer":
            assert optimiser.decay == (0.01 if part == "world" else 0.0)


@pytest.mark.parametrize("case", EPOCHS)
def test_positions_hold_a_segment_and_an_imagined_history(case: tuple[str, str]) -> None:
    """Exactly: a segment fills them, and imagination never drops its past."""
    found: Any = recipe(*case)
    # The last imagined frame is read up to its last token, or as one I-token.
    block, frame = (17, 16) if case[0] == "iris" else (6, 1)
    positions = found.world.sequence.positions
    assert positions == found.learning["world"].length * block
    assert positions >= (found.world.context + found.behaviour.horizon) * block + frame


@pytest.mark.parametrize("env", [ATARI, CRAFTER, "minatar:breakout", "toy:catch"])
@pytest.mark.parametrize("size", ["nano", "tiny", "small", "paper"])
@pytest.mark.parametrize("name", TOKENS)
def test_every_step_of_a_dream_is_at_a_position_that_was_trained(
    name: str, size: str, env: str
) -> None:
    """Positions are learned one by one. The last step of a segment trains no tokens."""
    found: Any = load(name, size, env).recipe
    dreamed = found.world.context + found.behaviour.horizon
    assert dreamed <= found.learning["world"].length - 1


def test_users_are_told_of_dreams_that_are_longer_than_what_was_trained() -> None:
    found = load("delta-iris", "nano").recipe
    longer = variant(found, {"behaviour.horizon": 12})
    built = Agent.build(longer, FrameShape(32, 32), ActionSpace(3))
    (note,) = untrained_positions(built, longer)
    assert "learning.world.length=10 trains dreams of 8 steps" in note
    assert "a length of at least 14" in note
    built = Agent.build(found, FrameShape(32, 32), ActionSpace(3))
    assert untrained_positions(built, found) == []


def test_other_environments_keep_the_numbers_of_atari() -> None:
    assert recipe("iris", CRAFTER) == recipe("iris", ATARI)
    assert recipe("delta-iris", "dmc:walker-walk") == recipe("delta-iris", ATARI)


def test_the_ablations() -> None:
    found: Any = recipe("iris-64")
    world: Any = agent(found, ActionSpace(3)).world
    assert world.tokens == 64
    assert found.world.sequence.positions == 20 * 65
    found = recipe("delta-iris-no-image-tokens", CRAFTER)
    assert not found.world.with_image_tokens
    assert found.steps == 10_000_000


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize("space", [ActionSpace(5), ActionSpace(3, discrete=False)])
@pytest.mark.parametrize("env", ["catch", "crafter"])
def test_every_token_recipe_runs(name: str, space: ActionSpace, env: str) -> None:
    """Acting and every loss, at `nano`."""
    found = recipe(name, env, "nano")
    shape = FrameShape(found.resolution, found.resolution)
    built = agent(found, space)
    dry_run(built, found, shape)
    frame = torch.zeros(2, shape.height, shape.width, 3, dtype=torch.uint8)
    generator = torch.Generator().manual_seed(0)
    first = torch.ones(2, dtype=torch.bool)
    action, _ = built.act(frame, first, built.initial(2), generator)
    assert action.shape == space.zeros(2).shape


@pytest.mark.parametrize("name", ["iris", "delta-iris"])
def test_small_runs(name: str) -> None:
    found = recipe(name, CRAFTER, "small")
    dry_run(agent(found, ActionSpace(17)), found, FrameShape(64, 64))


def test_no_token_recipe_is_left_out() -> None:
    assert {name for name in RECIPES if "iris" in RECIPES[name]().paper.lower()} == set(TOKENS)


def test_the_summary_of_iris_counts_no_discretisation_path() -> None:
    """A sequence of tokens has no prior of its own."""
    found = summarise(recipe("iris", "catch", "nano"), "catch")
    assert "discretisation" not in found["parameters"]
    assert found["parameters"]["total"] > 0
