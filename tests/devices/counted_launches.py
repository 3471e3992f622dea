"""Prints the launches of a small STORM as JSON: hollow, computed, and with a planted wait."""

import json
from typing import Any
from unittest.mock import patch

from torch import Tensor

from tokenworlds.benchmarking.launches import count_launches, to_document
from tokenworlds.core.config import variant
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.priors.factorised import Factorised
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.recipe import Recipe

sample = Factorised.sample


def waiting(self: Factorised, feature: Tensor, generator: Any) -> Tensor:
    bool(feature.sum() > 0)
    return sample(self, feature, generator)


def count(recipe: Recipe, hollow: bool) -> dict[str, Any]:
    shape = FrameShape(recipe.resolution, recipe.resolution)
    found = count_launches(recipe, shape, ActionSpace(4), hollow=hollow)
    return {each.name: to_document("storm", "nano", each) for each in found}


def main() -> None:
    small = {
        **{"learning.world.batch": 2, "learning.world.length": 8},
        **{"learning.behaviour.batch": 4, "behaviour.horizon": 2},
    }
    recipe = variant(load("storm", "nano").recipe, small)
    found = {"hollow": count(recipe, True), "computed": count(recipe, False)}
    with patch.object(Factorised, "sample", waiting):
        found["planted"] = count(recipe, True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
