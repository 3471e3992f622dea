"""The settings that make a difference to a score, as a hash that survives new settings."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tokenworlds.core.description import TAG, resolve, to_json
from tokenworlds.core.errors import UserError
from tokenworlds.core.files import sha256
from tokenworlds.evaluation.comparison.grouping import UNLIKE, leaves


def settings_hash(settings: Mapping[str, Any]) -> str:
    """Of all settings that differ from their defaults and make a difference to a score.

    A setting that a later version adds has a default that changes nothing: runs from before and
    after it have the same hash.
    """
    text = "\n".join(sorted(f"{path}={value}" for path, value in stated(settings).items()))
    return sha256(text.encode())[:16]


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The paths of the settings that count and differ."""
    first, second = stated(one), stated(other)
    return [path for path in first | second if first.get(path) != second.get(path)]


def stated(settings: Mapping[str, Any]) -> dict[str, str]:
    """The settings that count, by path."""
    found = leaves(without_defaults(settings))
    return {path: value for path, value in found if not path.startswith(UNLIKE)}


def without_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a description that are not what their dataclass gives them anyway."""
    usual = defaults_of(settings[TAG]) if TAG in settings else {}
    kept = {
        name: value for name, value in settings.items() if name not in usual or usual[name] != value
    }
    return {
        name: without_defaults(value) if isinstance(value, Mapping) else value
        for name, value in kept.items()
    }


def defaults_of(tag: str) -> dict[str, Any]:
    """Of a dataclass of this package, as JSON; none are known of a class of the user's."""
    try:
        kind = resolve(tag, {}, "settings")
    except UserError:
        return {}
    found = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            found[field.name] = to_json(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = to_json(field.default_factory())
    return found
