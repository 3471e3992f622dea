import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tokenworlds.evaluation.curve import Points
from tokenworlds.evaluation.loss_curves import is_wide, loss_png, loss_terms

EVENTS: list[dict[str, Any]] = [
    {"agent_steps": 10, "world/loss/total": 2.0, "world/loss/reward": 1.5, "world/code_usage": 0.5},
    {"agent_steps": 20, "world/loss/termination": 0.5, "behaviour/loss/actor": -0.1},
]


def test_terms_are_gathered_by_learner_with_the_total_last() -> None:
    assert loss_terms(EVENTS) == {
        "world": ["reward", "termination", "total"],
        "behaviour": ["actor"],
    }
    assert loss_terms([]) == {}


@pytest.mark.parametrize(
    ("values", "wide"),
    [([100.0, 1.0], True), ([10.0, 1.0], False), ([100.0, 0.0], False), ([5.0, -5.0], False)],
)
def test_only_positive_losses_that_fall_far_are_logarithmic(
    values: list[float], wide: bool
) -> None:
    assert is_wide(Points(np.arange(2), np.array(values))) == wide


@pytest.mark.parametrize("count", [1, 4, 5, 9])
def test_a_panel_for_each_term(count: int) -> None:
    terms = [f"term_{number}" for number in range(count)]
    events = [
        {"agent_steps": step, **{f"world/loss/{term}": 100.0 / step for term in terms}}
        for step in range(1, 50)
    ]
    with Image.open(io.BytesIO(loss_png(events, "world", terms))) as picture:
        picture.load()
        assert picture.width == 1600
        lines = {1: 1, 4: 1, 5: 2, 9: 3}[count]
        assert picture.height == round(200 * (1.75 * lines + 0.1))


def test_a_term_that_was_never_a_number_is_an_empty_panel() -> None:
    events = [{"agent_steps": 1, "world/loss/reward": float("nan")}]
    assert loss_png(events, "world", ["reward"]).startswith(b"\x89PNG")
