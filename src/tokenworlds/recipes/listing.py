"""The recipes of this package, read from its files without importing torch.

A recipe is a public function without arguments that returns a `Recipe`. Modules whose names begin
with an underscore are skipped.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PAPER = "paper"
"""The size without a block: the recipe as its function returns it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A recipe: its name on the command line, the first lines of its docstrings, its sizes."""

    name: str
    about: str
    paper: str
    module: str
    sizes: tuple[str, ...] = (PAPER,)

    @property
    def function(self) -> str:
        return self.name.replace("-", "_")


@dataclass(frozen=True, slots=True)
class Definition:
    """A function that returns a recipe, and the module around it."""

    function: ast.FunctionDef
    module: ast.Module
    file: Path


def entries() -> list[Entry]:
    """All recipes, file by file, in the order of definition."""
    found: dict[str, Definition] = {}
    for file in sorted(Path(__file__).parent.glob("[!_]*.py")):
        module = ast.parse(file.read_text("utf-8"))
        for node in module.body:
            if isinstance(node, ast.FunctionDef) and is_recipe(node):
                found[node.name] = Definition(node, module, file)
    return [
        Entry(
            name=name.replace("_", "-"),
            about=first_line(each.function),
            paper=first_line(each.module),
            module=each.file.stem,
            sizes=(*size_blocks(name, found), PAPER),
        )
        for name, each in found.items()
    ]


def is_recipe(function: ast.FunctionDef) -> bool:
    given = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    returns = function.returns
    return (
        isinstance(returns, ast.Name)
        and returns.id == "Recipe"
        and not given
        and not function.name.startswith("_")
    )


def first_line(node: ast.FunctionDef | ast.Module) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0]


def size_blocks(name: str, found: Mapping[str, Definition]) -> list[str]:
    """The keys of `sizes` in a recipe's decorator, after those of the recipe that it is like."""
    each = found[name]
    calls = [node for node in each.function.decorator_list if isinstance(node, ast.Call)]
    given = {keyword.arg: keyword.value for call in calls for keyword in call.keywords}
    like = given.get("like")
    inherited = size_blocks(like.id, found) if isinstance(like, ast.Name) else []
    return list(dict.fromkeys([*inherited, *keys(given.get("sizes"), each.module)]))


def keys(node: ast.expr | None, module: ast.Module) -> list[str]:
    """The keys of a dict literal, with those of dicts of the module that it unpacks."""
    if isinstance(node, ast.Name):
        assigned = [each for each in module.body if isinstance(each, ast.Assign)]
        values = {ast.unparse(each.targets[0]): each.value for each in assigned}
        node = values.get(node.id)
    if not isinstance(node, ast.Dict):
        return []
    found: list[str] = []
    for key, value in zip(node.keys, node.values, strict=True):
        found += keys(value, module) if key is None else [ast.literal_eval(key)]
    return found
