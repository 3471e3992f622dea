"""Import a user's own modules, from a file or from the current folder."""

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from tokenworlds.core.errors import UserError


def load_module(file: str, name: str | None = None) -> ModuleType:
    """A user's file as a module, named after the file by default.

    As in a script, the file may import its neighbours.
    """
    path = Path(file).absolute()
    if not path.is_file():
        raise UserError(f"{file!r} is no file: write FILE.py:NAME")
    name = name or path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{file!r} is no Python file: write FILE.py:NAME")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with naming_the_culprit(file):
            spec.loader.exec_module(module)
    except BaseException:
        # Half a module must not be found by a later import.
        del sys.modules[name]
        raise
    return module


def load_once(file: str) -> ModuleType:
    """A user's file as a module; a file that was imported before is not executed again."""
    path = Path(file).absolute()
    present = sys.modules.get(path.stem)
    if present is None:
        return load_module(file)
    if getattr(present, "__file__", None) == str(path):
        return present
    # A file may have the name of an installed package, which others go on using.
    name = f"own {path}"
    return sys.modules[name] if name in sys.modules else load_module(file, name)


def import_here(name: str) -> ModuleType:
    """A module that is installed, or lies in the current folder.

    The folder comes last: what lies in it does not replace an installed module.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
        importlib.invalidate_caches()
    return importlib.import_module(name)


@contextlib.contextmanager
def naming_the_culprit(name: str) -> Iterator[None]:
    """Turns an exception in a user's code into one sentence with its place."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename}, line {last.lineno}"
        raise UserError(f"{name} failed: {type(error).__name__}: {error} ({place})") from error
