"""Every recipe by its name on the command line, and a user's own from a file."""

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import cast

from tokenworlds.core.config import variant
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.envs.catalogue import canonical
from tokenworlds.recipes import (
    grid_sizes,
    iris,
    sizes,
    smaller_world_models,
    step_vq,
    storm,
    token_sizes,
)
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.schedules.interleaved import Interleaved
from tokenworlds.worlds.delta_iris import DeltaIris
from tokenworlds.worlds.grid import Grid
from tokenworlds.worlds.iris import Iris
from tokenworlds.worlds.latent import Latent
from tokenworlds.worlds.real import Real

RECIPES: Mapping[str, Callable[[], Recipe]] = {
    "step-vq-m": step_vq.step_vq_m,
    "step-vq-t": step_vq.step_vq_t,
    "step-vq-m-ce": step_vq.step_vq_m_ce,
    "step-vq-m-96": step_vq.step_vq_m_96,
    "step-vq-iris": step_vq.step_vq_iris,
    "cb-m": step_vq.cb_m,
    "cb-t": step_vq.cb_t,
    "cb-m-96": step_vq.cb_m_96,
    "drama": step_vq.drama,
    "storm": storm.storm,
    "git-storm": storm.git_storm,
    "git-storm-mlp-logits": storm.git_storm_mlp_logits,
    "git-storm-vq": storm.git_storm_vq,
    "iris": iris.iris,
    "iris-64": iris.iris_64,
    "delta-iris": iris.delta_iris,
    "delta-iris-no-image-tokens": iris.delta_iris_no_image_tokens,
    "swm": smaller_world_models.swm,
    "swm-1frame": smaller_world_models.swm_1frame,
    "swm-1d": smaller_world_models.swm_1d,
    "swm-continuous": smaller_world_models.swm_continuous,
    "swm-continuous-1d": smaller_world_models.swm_continuous_1d,
    "swm-reconstructions": smaller_world_models.swm_reconstructions,
    "swm-autoregressive": smaller_world_models.swm_autoregressive,
    "swm-small-field": smaller_world_models.swm_small_field,
    "ppo": smaller_world_models.ppo,
}
SIZES: Mapping[str, Callable[[Recipe], Recipe]] = {
    "nano": lambda recipe: sizes_of(recipe).nano(recipe),
    "small": lambda recipe: sizes_of(recipe).small(recipe),
    "paper": lambda recipe: recipe,
}


@dataclass(frozen=True, slots=True)
class Found:
    """A recipe and, if it is a user's own, the module it was found in."""

    recipe: Recipe
    modules: Mapping[str, ModuleType]


def load(name: str, size: str, env: str | None = None) -> Found:
    """The recipe of a name at a size, for an environment if one is named.

    `my_agents.py:mine` is taken as it is written there.
    """
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    if ".py:" in name:
        return load_own(name)
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    game = canonical(env) if env is not None else ""
    family = game.partition(":")[0]
    recipe = SIZES[size](for_benchmark(RECIPES[name](), family))
    if size == "nano" and game == "toy:steer":
        recipe = sizes.nano_for_steer(recipe)
    return Found(sizes.for_toy(recipe) if family == "toy" else recipe, {})


def for_benchmark(recipe: Recipe, family: str) -> Recipe:
    """The numbers of a paper for the environments of a family, where they are others."""
    if family == "dmc" and isinstance(recipe.world, Latent.Config):
        return with_room(variant(recipe, storm.CONTROL))
    if family == "crafter" and isinstance(recipe.world, DeltaIris.Config):
        return variant(recipe, iris.CRAFTER)
    return recipe


def with_room(recipe: Recipe) -> Recipe:
    """A warm-up that leaves each stream steps enough for the first update."""
    schedule = cast(Interleaved.Config, recipe.schedule)
    longest = max(learning.length for learning in recipe.learning.values())
    warm_up = max(schedule.warm_up, recipe.num_envs * longest)
    return variant(recipe, {"schedule.warm_up": warm_up})


def is_of_tokens(recipe: Recipe) -> bool:
    """Whether the world of a recipe writes tokens in line."""
    return isinstance(recipe.world, Iris.Config | DeltaIris.Config)


def sizes_of(recipe: Recipe) -> ModuleType:
    """Where the smaller sizes of a recipe are written."""
    if isinstance(recipe.world, Grid.Config | Real.Config):
        return grid_sizes
    return token_sizes if is_of_tokens(recipe) else sizes


def load_own(name: str) -> Found:
    """Call a function of a user's own file; the file says what size it is."""
    module = load_module(name)
    function = name.rpartition(":")[2]
    made = [key for key, value in vars(module).items() if callable(value)]
    if function not in made:
        raise unknown(f"recipe in {name.rpartition(':')[0]}", function, made)
    with naming_the_culprit(name):
        recipe = getattr(module, function)()
    if not isinstance(recipe, Recipe):
        raise UserError(f"{name} returned {type(recipe).__name__}, not a Recipe")
    return Found(recipe, {module.__name__: module})


def load_module(name: str) -> ModuleType:
    """A user's file as a module of its own name."""
    path = Path(name.rpartition(":")[0])
    if not path.is_file():
        raise UserError(f"{str(path)!r} is no file, so it holds no recipe {name!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    with naming_the_culprit(str(path)):
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def naming_the_culprit(name: str) -> Iterator[None]:
    """Turns what a user's own code raises into a sentence that says where."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename}, line {last.lineno}"
        raise UserError(f"{name} failed: {type(error).__name__}: {error} ({place})") from error


def own_modules(name: str) -> Mapping[str, ModuleType]:
    """The modules that the description of a run made by this recipe may name."""
    if ".py:" not in name:
        return {}
    module = load_module(name)
    return {module.__name__: module}
