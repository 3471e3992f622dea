"""Python blocks of the pages: checked without running them, and run."""

import ast
import importlib
import inspect
from typing import Any

from blocks import Block

import tokenworlds


def check_code(block: Block) -> None:
    """Raise an error unless the block compiles, and what it takes of this package exists."""
    for node in ast.walk(ast.parse(block.code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tokenworlds"):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                getattr(module, alias.name)
        if isinstance(node, ast.Call):
            check_call(node)


def check_call(call: ast.Call) -> None:
    """A call of `tw.something(...)` fits the signature."""
    called = ast.unparse(call.func)
    if not called.startswith("tw."):
        return
    found: Any = tokenworlds
    for name in called.split(".")[1:]:
        found = getattr(found, name)
    named = {each.arg: None for each in call.keywords if each.arg}
    inspect.signature(found).bind(*call.args, **named)


def run_code(block: Block, names: dict[str, Any]) -> None:
    """Execute a block in the names that earlier ones left; tracebacks name page and line."""
    page, _, line = block.place.partition(":")
    code = compile("\n" * int(line) + block.quick_code, page, "exec")
    exec(code, names)
