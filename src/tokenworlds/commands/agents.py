"""`tokenworlds agents`."""

import dataclasses
import json
from dataclasses import dataclass
from itertools import groupby

from tokenworlds.commands.options import Json
from tokenworlds.recipes.listing import entries


@dataclass(frozen=True, kw_only=True)
class Agents:
    """List the recipes that can be trained, with their sizes."""

    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        found = entries()
        if self.json:
            print(json.dumps([dataclasses.asdict(entry) for entry in found], indent=2))
            return 0
        for (paper, sizes), group in groupby(found, key=lambda entry: (entry.paper, entry.sizes)):
            listed = list(group)
            width = max(len(entry.name) for entry in listed)
            print(paper)
            print("\n".join(f"  {entry.name:{width}}  {entry.about}" for entry in listed))
            print(f"  sizes: {', '.join(sizes)}")
        print("\nTrain one: tokenworlds train RECIPE.  Show its settings: tokenworlds show RECIPE.")
        return 0
