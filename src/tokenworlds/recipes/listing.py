"""The recipes of this package, read from its files without importing torch.

A recipe is a public function without arguments that returns a `Recipe`. Modules whose names begin
with an underscore are skipped.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """A recipe: its name on the command line, and the first lines of its docstrings."""

    name: str
    about: str
    paper: str
    module: str

    @property
    def function(self) -> str:
        return self.name.replace("-", "_")


def entries() -> list[Entry]:
    """All recipes, file by file, in the order of definition."""
    files = sorted(Path(__file__).parent.glob("[!_]*.py"))
    return [entry for file in files for entry in entries_of(file)]


def entries_of(file: Path) -> Iterator[Entry]:
    module = ast.parse(file.read_text("utf-8"))
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and is_recipe(node):
            name = node.name.replace("_", "-")
            yield Entry(name, first_line(node), first_line(module), file.stem)


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
