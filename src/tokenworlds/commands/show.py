"""`tokenworlds show`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tokenworlds.commands.options import (
    Assignments,
    Env,
    EnvAssignments,
    Json,
    Recipe,
    Size,
)
from tokenworlds.core.overrides import snake_case

if TYPE_CHECKING:
    from tokenworlds.runs.recipe import Recipe as RecipeOf

INDENT = 2
NUMBERS = 34


@dataclass(frozen=True, kw_only=True)
class Show:
    """Show all settings of a recipe and the parameter count of each component."""

    recipe: Recipe
    """A recipe from 'tokenworlds agents', or your own: my_agents.py:mine."""
    env: Env = "catch"
    """An environment from 'tokenworlds envs'."""
    size: Size = "nano"
    """Size of the networks."""
    assignments: Assignments = ()
    """Change settings of the recipe; may be repeated."""
    env_set: EnvAssignments = ()
    """Options of a Gymnasium environment, from 'tokenworlds envs', as in frame_skip=4."""
    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        document = self.document()
        print(json.dumps(document, indent=2) if self.json else "\n".join(lines(document)))
        return 0

    def document(self) -> dict[str, Any]:
        from tokenworlds.commands import choices
        from tokenworlds.core.description import to_json
        from tokenworlds.training.summary import summarise

        env = self.env
        found = choices.choose_recipe(self.recipe, self.size, env, self.assignments)
        summary = summarise(found.recipe, env, choices.protocol_with("", self.env_set))
        return {
            "name": self.recipe,
            "size": found.size,
            **summary,
            **memory_document(found.recipe, summary),
            "recipe": to_json(found.recipe),
        }


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The document as text; lines of the recipe can be passed to --set."""
    frame, actions = document["frame"], document["actions"]
    yield f"{document['name']} ({document['size']}) on {document['env']}"
    yield f"frames of {' x '.join(map(str, frame))}, {actions['size']} {actions['kind']} actions"
    yield "\nparameters"
    yield from tree_lines(document["parameters"], INDENT)
    yield from memory_lines(document)
    yield "\nrecipe"
    yield from (f"  {path}={value}" for path, value in leaves(document["recipe"], ()))


def memory_document(recipe: "RecipeOf", summary: Mapping[str, Any]) -> dict[str, Any]:
    """What an update and the replay will take, in bytes; nothing where that cannot be known."""
    from tokenworlds.benchmarking.memory import predict_memory, replay_size
    from tokenworlds.core.types import ActionSpace, FrameShape

    actions = summary["actions"]
    space = ActionSpace(actions["size"], actions["kind"] == "discrete")
    shape = FrameShape(*summary["frame"])
    try:
        memory = predict_memory(recipe, shape, space)
        replay = replay_size(recipe, shape, space)
    except (NotImplementedError, RuntimeError, TypeError):  # A user's own part reads numbers.
        return {}
    return {"memory": {**asdict(memory), "peak": memory.peak}, "replay": asdict(replay)}


def memory_lines(document: Mapping[str, Any]) -> Iterator[str]:
    from tokenworlds.training.estimate import size

    yield "\nmemory, as predicted for float32"
    if "memory" not in document:
        yield "  unknown: a part of this recipe reads numbers of its tensors"
        return
    memory, replay = document["memory"], document["replay"]
    yield f"{'  weights, optimisers, gradients':{NUMBERS}}{size(memory['resident']):>14}"
    for name, added in memory["added"].items():
        yield f"{f'  an update of {name} adds':{NUMBERS}}{size(added):>14}"
    yield f"{'  peak':{NUMBERS}}{size(memory['peak']):>14}"
    yield f"{'  replay on disk':{NUMBERS}}{size(replay['disk']):>14}"
    yield f"{'  replay in memory':{NUMBERS}}{size(replay['memory']):>14}"


def tree_lines(tree: Mapping[str, Any], depth: int) -> Iterator[str]:
    """One line per component, with the total beside its name."""
    for name, value in tree.items():
        count = value["total"] if isinstance(value, Mapping) else value
        yield f"{' ' * depth + name:{NUMBERS}}{count:>14,}"
        if isinstance(value, Mapping):
            inner = {key: item for key, item in value.items() if key != "total"}
            yield from tree_lines(inner, depth + INDENT)


def leaves(value: Any, path: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every setting with its dotted path; a component by the name that --set takes."""
    if not isinstance(value, Mapping) or not value:
        yield ".".join(path), json.dumps(value)
        return
    component, _, kind = value.get("type", "").rpartition(":")[2].rpartition(".")
    if kind == "Config":
        yield ".".join(path), snake_case(component)
    for name, item in value.items():
        if name != "type":
            yield from leaves(item, (*path, name))
