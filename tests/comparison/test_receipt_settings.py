"""The hash of settings by which seeds are recognised as runs of the same agent."""

from typing import Any

import pytest

from tokenworlds.core.config import variant
from tokenworlds.core.description import to_json
from tokenworlds.evaluation.receipts.settings import differing, settings_hash, without_defaults
from tokenworlds.recipes.catalogue import load
from tokenworlds.tokenizers.fsq import FSQ


def settings(**changes: Any) -> dict[str, Any]:
    recipe = load("step-vq-m", "nano", "catch").recipe
    found: dict[str, Any] = to_json(variant(recipe, changes))
    return found


def test_a_run_from_before_a_setting_existed_has_the_hash_of_its_default() -> None:
    now, before = settings(), settings()
    # Versions without temperatures and averages of weights sampled at 1 and kept no average.
    del before["world"]["prior"]["temperature"]
    del before["learning"]["world"]["average"]
    assert settings_hash(before) == settings_hash(now)
    assert differing(before, now) == []


@pytest.mark.parametrize(
    "change",
    [
        {"world.prior.temperature": 0.5},
        {"learning.world.average": 0.98},
        {"learning.world.batch": 9},
        {"world.tokenizer": FSQ.Config()},
        {"behaviour.horizon": 9},
    ],
)
def test_another_value_of_any_setting_gives_another_hash(change: dict[str, Any]) -> None:
    assert settings_hash(settings(**change)) != settings_hash(settings())


def test_the_settings_that_differ_are_named() -> None:
    other = settings(**{"behaviour.horizon": 9, "world.prior.temperature": 0.5})
    assert differing(settings(), other) == ["behaviour.horizon", "world.prior.temperature"]


def test_how_often_a_run_is_evaluated_does_not_matter() -> None:
    often = settings(**{"evaluation.every": 10, "evaluation.final_episodes": 99})
    assert settings_hash(often) == settings_hash(settings())


def test_all_settings_of_a_class_of_the_users_count() -> None:
    own = {"type": "my_tokenizer:Mine.Config", "width": 8}
    assert without_defaults(own) == own
