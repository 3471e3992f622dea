"""`tokenworlds agents`."""

import dataclasses
import json
from dataclasses import dataclass
from itertools import groupby

from tokenworlds.commands.options import Json
from tokenworlds.recipes.listing import Entry, entries


@dataclass(frozen=True, kw_only=True)
class Agents:
    """List the recipes that can be trained."""

    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        found = entries()
        if self.json:
            print(json.dumps([dataclasses.asdict(entry) for entry in found], indent=2))
            return 0
        for paper, group in groupby(found, key=lambda entry: entry.paper):
            print(paper)
            print("\n".join(line(entry) for entry in group))
        print("\nTrain one: tokenworlds train RECIPE.  Show its settings: tokenworlds show RECIPE.")
        return 0


def line(entry: Entry) -> str:
    return f"  {entry.name:14}  {entry.about}"
