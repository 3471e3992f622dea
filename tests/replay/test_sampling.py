import itertools
from typing import Any

import pytest

from tokenworlds.core.config import components, snake_case, variant
from tokenworlds.core.description import override
from tokenworlds.recipes.catalogue import load
from tokenworlds.replay import sampling

BATCHES = {"world": 2, "behaviour": 6}


@pytest.mark.parametrize(
    ("old", "new"), itertools.permutations(components(sampling), 2), ids=lambda kind: kind.__name__
)
def test_a_sampler_is_chosen_by_name(old: Any, new: Any) -> None:
    recipe = variant(load("step-vq-m", "nano").recipe, {"sampler": old.Config()})
    chosen = override(recipe, [f"sampler={snake_case(new.__name__)}"])
    assert isinstance(chosen.sampler, new.Config)
