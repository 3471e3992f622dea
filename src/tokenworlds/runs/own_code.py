"""A user's own Python files, which only the user can ask to execute.

A run folder is data: run.json names the files that a run's classes come from, as a hint. They are
executed if the user names them again, or trusts the folder.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from tokenworlds.core.description import is_public, modules_of, to_json
from tokenworlds.core.errors import UserError
from tokenworlds.core.own_modules import load_module
from tokenworlds.envs.catalogue import module_of
from tokenworlds.envs.own import take_moved


@dataclass(frozen=True, slots=True)
class Trust:
    """What a run may import: `modules` by name, and the module of the environment `env`.

    With `everything`, it may import all that its run.json names, relative to this folder.
    """

    modules: Mapping[str, ModuleType] = field(default_factory=dict)
    env: str = ""
    everything: bool = False

    def modules_for(self, run: Path, described: Any, hints: Mapping[str, str]) -> Mapping[str, Any]:
        """The modules of the user's own classes in a description."""
        wanted = sorted(name for name in modules_of(described) if not is_public(name))
        absent = [name for name in wanted if name not in self.modules]
        if absent and not self.everything:
            hint = os.path.normpath(str(hints.get(absent[0], f"{absent[0]}.py")))
            raise UserError(
                f"{run} uses classes of your own file {hint}: name the file again with --recipe "
                f"FILE.py, or execute the files that the run names with --trust (in Python: "
                f"modules=..., or trust=True)"
            )
        files = {name: str(hints.get(name, f"{name}.py")) for name in absent}
        return {**self.modules, **load_modules(files)}

    def check_env(self, run: Path, name: str) -> None:
        """Raise `UserError` if an environment imports a module that the user did not name."""
        module = module_of(name)
        named = self.env == name or take_moved(name, self.env)
        if module is not None and not self.everything and not named:
            raise UserError(
                f"{run} plays {name}, which imports the module {module}: name the environment "
                f"again with --env {name}, or import what the run names with --trust (in Python: "
                f"env=..., or trust=True)"
            )


def load_files(names: Sequence[str]) -> dict[str, ModuleType]:
    """Modules by name, from `my_agents.py:mine` or `my_agents.py` each."""
    files = [name.rpartition(":")[0] if ".py:" in name else name for name in names]
    return {Path(file).stem: load_module(file) for file in files}


def load_modules(files: Mapping[str, str]) -> dict[str, ModuleType]:
    return {name: load_module(file, name) for name, file in files.items()}


def own_files(described: object) -> dict[str, str]:
    """The modules outside this package that a recipe's classes come from, and their files.

    Paths are relative to the current folder, so that a run can move with its code.
    """
    names = [name for name in modules_of(to_json(described)) if not is_public(name)]
    return {name: os.path.relpath(str(vars(sys.modules[name])["__file__"])) for name in names}
