"""Every recipe by its name on the command line, and recipes and parts from a user's file."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

from tokenworlds.core.config import Component
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.overrides import components
from tokenworlds.core.own_modules import load_module, naming_the_culprit
from tokenworlds.envs.catalogue import canonical
from tokenworlds.recipes.blocks import SizedRecipe
from tokenworlds.recipes.listing import Entry, entries
from tokenworlds.runs.recipe import Recipe

OWN = "own"
"""The size of a user's recipe that declares no sizes."""


def import_recipe(entry: Entry) -> SizedRecipe:
    module = importlib.import_module(f"{__package__}.{entry.module}")
    found = vars(module)[entry.function]
    return found if isinstance(found, SizedRecipe) else SizedRecipe(found)


RECIPES: Mapping[str, SizedRecipe] = {entry.name: import_recipe(entry) for entry in entries()}


@dataclass(frozen=True, slots=True)
class Found:
    """A recipe and its size."""

    recipe: Recipe
    size: str


def load(name: str, size: str, env: str | None = None) -> Found:
    """The recipe of a name at a size, for an environment if one is named.

    `my_agents.py:mine` names a function in a user's file. It is taken as written, unless it
    declares sizes with `tokenworlds.recipes.blocks.recipe`.
    """
    game = canonical(env) if env is not None else ""
    if is_own(name):
        return load_own(name, size, game)
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    return Found(RECIPES[name].at(size, game), size)


def is_own(name: str) -> bool:
    """Whether a name points into a user's file."""
    return ".py:" in name


def load_own(name: str, size: str, game: str) -> Found:
    path, _, wanted = name.rpartition(":")
    functions = {key: value for key, value in vars(load_module(path)).items() if callable(value)}
    if wanted not in functions:
        raise unknown(f"recipe in {path}", wanted, functions)
    function = functions[wanted]
    with naming_the_culprit(name):
        sized = isinstance(function, SizedRecipe)
        recipe = function.at(size, game) if sized else function()
    if not isinstance(recipe, Recipe):
        raise UserError(f"{name} returned {type(recipe).__name__}, not a Recipe")
    return Found(recipe, size if sized else OWN)


def load_component(name: str) -> type[Component]:
    """The component that `my_parts.py:Mine` names."""
    path, _, wanted = name.rpartition(":")
    defined = {component.__name__: component for component in components(load_module(path))}
    if wanted not in defined:
        raise unknown(f"component in {path}", wanted, defined)
    return defined[wanted]
