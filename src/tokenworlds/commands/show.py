"""`tokenworlds show`."""

import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from tyro.conf import arg

from tokenworlds.commands.options import Assignments, Json, Recipe, Size, unstated
from tokenworlds.core.families import snake_case

INDENT = 2
NUMBERS = 34


@dataclass(frozen=True, kw_only=True)
class Show:
    """Show every number of a recipe, and how many parameters each part has."""

    recipe: Recipe
    """A name that 'tokenworlds agents' lists, or my_agents.py:mine."""
    env: Annotated[
        str, arg(metavar="ENV"), unstated("atari:Pong if ale-py is there, else catch")
    ] = ""
    """A name as 'tokenworlds envs' has them."""
    size: Size = "paper"
    """How large the networks are."""
    assignments: Assignments = ()
    """Change values of the recipe; may be repeated."""
    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        """Build the networks and count."""
        document = self.document()
        print(json.dumps(document, indent=2) if self.json else "\n".join(lines(document)))
        return 0

    def document(self) -> dict[str, Any]:
        """What there is to show."""
        from tokenworlds.commands import choices
        from tokenworlds.core.description import to_json
        from tokenworlds.training.summary import anatomy

        env = self.env or default_env()
        recipe = choices.choose_recipe(self.recipe, self.size, env, self.assignments)
        size = choices.OWN if choices.is_own(self.recipe) else self.size
        facts = anatomy(recipe, env)
        return {"name": self.recipe, "size": size, **facts, "recipe": to_json(recipe)}


def default_env() -> str:
    """A game of the benchmark that the recipes were written for, if it can be played here."""
    return "atari:Pong" if importlib.util.find_spec("ale_py") else "catch"


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The document for people; recipe lines are such as --set takes."""
    seen, actions = document["frame"], document["actions"]
    yield f"{document['name']} ({document['size']}) on {document['env']}"
    yield f"frames of {' x '.join(map(str, seen))}, {actions['size']} {actions['kind']} actions"
    yield "\nparameters"
    yield from tree_lines(document["parameters"], INDENT)
    yield "\nrecipe"
    yield from (f"  {path}={value}" for path, value in leaves(document["recipe"], ()))


def tree_lines(tree: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Nested counts, each component with its total on the line of its name."""
    for name, value in tree.items():
        count = value["total"] if isinstance(value, Mapping) else value
        yield f"{' ' * depth + name:{NUMBERS}}{count:>14,}"
        if isinstance(value, Mapping):
            inner = {key: item for key, item in value.items() if key != "total"}
            yield from tree_lines(inner, depth + INDENT)


def leaves(value: Any, path: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every value of a description with its dotted path; a component by its family's name."""
    if not isinstance(value, Mapping) or not value:
        yield ".".join(path), json.dumps(value)
        return
    component, _, kind = value.get("type", "").rpartition(":")[2].rpartition(".")
    if kind == "Config":
        yield ".".join(path), snake_case(component)
    for name, item in value.items():
        if name != "type":
            yield from leaves(item, (*path, name))
