"""Assignments to a recipe, and the learners of a replaced world or behaviour."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tokenworlds.agent import BEHAVIOUR, JOINT
from tokenworlds.core.capabilities import GivesStates, LearnsFromStates
from tokenworlds.core.config import variant
from tokenworlds.core.overrides import override
from tokenworlds.recipes.catalogue import load_component
from tokenworlds.runs.recipe import Learning, Recipe

WORLD, ENTROPY = "world", "entropy"
Value = TypeVar("Value")


def assign(recipe: Recipe, assignments: Sequence[str]) -> Recipe:
    """A copy with each assignment `a.b.c=value` applied, in order.

    A behaviour brings its own loss weights: those that the recipe chose for another are dropped,
    unless an assignment chose them.
    """
    for number, assignment in enumerate(assignments):
        changed = override(recipe, [assignment], load_component)
        if type(changed.behaviour) is not type(recipe.behaviour):
            chosen = [each for each in assignments[:number] if ".scales" in each.partition("=")[0]]
            changed = override(with_default_weights(changed), chosen)
        recipe = changed
    return recipe


def with_default_weights(recipe: Recipe) -> Recipe:
    """The learners of a new behaviour, with the weights that it gives its losses itself."""
    recipe = split_joint(recipe)
    learning = {
        name: without_weights(each) if name in (BEHAVIOUR, JOINT) else each
        for name, each in recipe.learning.items()
    }
    return replace(recipe, learning=learning)


def split_joint(recipe: Recipe) -> Recipe:
    """Two learners instead of one where world and behaviour cannot share an update.

    Both keep its batches, optimiser and updates per step; the world keeps its loss weights but that
    of the entropy.
    """
    if JOINT not in recipe.learning or can_share(recipe):
        return recipe
    both, updates = recipe.learning[JOINT], scheduled(recipe)
    scales = {name: scale for name, scale in both.scales.items() if name != ENTROPY}
    halves = {WORLD: replace(both, scales=scales), BEHAVIOUR: without_weights(both)}
    recipe = replace(recipe, learning={**without_joint(recipe.learning), **halves})
    if JOINT not in updates:
        return recipe
    split = {**without_joint(updates), **dict.fromkeys(halves, updates[JOINT])}
    return variant(recipe, {"schedule.updates": split})


def without_weights(learning: Learning) -> Learning:
    return replace(learning, scales={})


def can_share(recipe: Recipe) -> bool:
    """Whether the behaviour can dream from every state of the world's own update."""
    world, behaviour = type(recipe.world).owner, type(recipe.behaviour).owner
    return issubclass(world, GivesStates) and issubclass(behaviour, LearnsFromStates)


def scheduled(recipe: Recipe) -> Mapping[str, Any]:
    """The updates of each learner in the schedule; empty if it names none."""
    updates = getattr(recipe.schedule, "updates", {})
    return updates if isinstance(updates, Mapping) else {}


def without_joint(named: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in named.items() if name != JOINT}
