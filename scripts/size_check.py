"""Fail for a file or a function that has grown too long to be read at once, and name it."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 250
FUNCTION_LINES = 40
FOLDERS = ("src", "tests", "scripts")


def findings(path: Path) -> Iterator[str]:
    """What is too long in one file."""
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > FILE_LINES:
        yield f"{path}: {lines} lines, {FILE_LINES} are allowed"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield (
                    f"{path}:{node.lineno}: {node.name} has {length} lines, "
                    f"{FUNCTION_LINES} are allowed"
                )


def main() -> int:
    """Check every Python file below the folder this is run in."""
    paths = sorted(path for folder in FOLDERS for path in Path(folder).rglob("*.py"))
    found = [finding for path in paths for finding in findings(path)]
    print("\n".join(found) or f"{len(paths)} files are short enough")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
