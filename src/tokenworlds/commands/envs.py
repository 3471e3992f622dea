"""`tokenworlds envs`."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tokenworlds.commands.options import Json

if TYPE_CHECKING:
    from tokenworlds.evaluation.benchmarks import Benchmark


@dataclass(frozen=True, kw_only=True)
class Envs:
    """List the environments, their protocols and benchmarks."""

    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        found = families()
        paragraphs = ("\n".join(lines(family)) for family in found)
        print(json.dumps(found, indent=2) if self.json else "\n\n".join(paragraphs))
        return 0


def families() -> list[dict[str, Any]]:
    from tokenworlds.envs import catalogue
    from tokenworlds.envs.options import ABOUT
    from tokenworlds.evaluation.benchmarks import BENCHMARKS

    benchmarks = BENCHMARKS.values()
    return [
        {
            "name": family.name,
            "about": family.about,
            "examples": list(family.examples),
            "protocols": dict(family.protocols),
            "options": dict(ABOUT) if family.has_options else {},
            "installed": family.installed,
            "extra": family.extra,
            "benchmarks": [describe(each) for each in benchmarks if each.family == family.name],
        }
        for family in catalogue.families().values()
    ]


def describe(benchmark: "Benchmark") -> dict[str, Any]:
    return {**asdict(benchmark), "frames": benchmark.frames, "line": str(benchmark)}


def lines(family: dict[str, Any]) -> Iterator[str]:
    yield f"{family['name']}: {family['about']}"
    if family["examples"]:
        yield f"  {', '.join(family['examples'])}"
    if not family["installed"]:
        yield f"  not installed: pip install 'tokenworlds[{family['extra']}]'"
    for name, meaning in family["protocols"].items():
        yield f"  protocol {name:18}{meaning}"
    for name, meaning in family["options"].items():
        yield f"  option   {name:18}{meaning}"
    for benchmark in family["benchmarks"]:
        yield f"  benchmark {benchmark['name']:17}{benchmark['line']}"
