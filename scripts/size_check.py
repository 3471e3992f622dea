"""Fail for files and functions that are too long; mention files that are longer than typical."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

TYPICAL_LINES = 250
FILE_LINES = 400
FUNCTION_LINES = 40
FOLDERS = ("src", "tests", "scripts")
TABLES = Path("src/tokenworlds/recipes")
"""The function of a recipe is a paper's table, which may be long."""


def problems(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > FILE_LINES:
        yield f"{path}: {lines} lines, at most {FILE_LINES} are allowed"
    if TABLES in path.parents:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield (
                    f"{path}:{node.lineno}: {node.name} has {length} lines, "
                    f"at most {FUNCTION_LINES} are allowed"
                )


def main() -> int:
    """Check every Python file below the current folder."""
    paths = sorted(path for folder in FOLDERS for path in Path(folder).rglob("*.py"))
    found = [problem for path in paths for problem in problems(path)]
    long = sum(len(path.read_text().splitlines()) > TYPICAL_LINES for path in paths)
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(paths)} files, {long} of them longer than the typical {TYPICAL_LINES} lines")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
