"""`tokenworlds envs`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tokenworlds.commands.options import Json


@dataclass(frozen=True, kw_only=True)
class Envs:
    """List the environments and their protocols."""

    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        found = families()
        paragraphs = ("\n".join(lines(family)) for family in found)
        print(json.dumps(found, indent=2) if self.json else "\n\n".join(paragraphs))
        return 0


def families() -> list[dict[str, Any]]:
    from tokenworlds.envs import catalogue

    return [
        {
            "name": family.name,
            "about": family.about,
            "examples": list(family.examples),
            "protocols": dict(family.protocols),
            "installed": family.installed,
            "extra": family.extra,
        }
        for family in catalogue.families().values()
    ]


def lines(family: dict[str, Any]) -> Iterator[str]:
    yield f"{family['name']}: {family['about']}"
    yield f"  {', '.join(family['examples'])}"
    if not family["installed"]:
        yield f"  not installed: pip install 'tokenworlds[{family['extra']}]'"
    for name, meaning in family["protocols"].items():
        yield f"  protocol {name:18}{meaning}"
