"""Which recipes there are, read off the files of this package without importing torch.

A recipe is a public function without arguments that returns a `Recipe`.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """A recipe by its name on the command line, and what its file says of it."""

    name: str
    about: str
    paper: str


def entries() -> list[Entry]:
    """All recipes, file by file, in the order they are written in."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return [entry for file in files for entry in entries_of(ast.parse(file.read_text("utf-8")))]


def entries_of(module: ast.Module) -> Iterator[Entry]:
    """The recipes of one file."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and is_recipe(node):
            name = node.name.replace("_", "-")
            yield Entry(name, first_line(node), first_line(module))


def is_recipe(function: ast.FunctionDef) -> bool:
    """Whether a function is called without arguments, by anyone, and returns a recipe."""
    given = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    returns = function.returns
    return (
        isinstance(returns, ast.Name)
        and returns.id == "Recipe"
        and not given
        and not function.name.startswith("_")
    )


def first_line(node: ast.FunctionDef | ast.Module) -> str:
    """The sentence that a docstring opens with."""
    return (ast.get_docstring(node) or "").partition("\n")[0]
