"""What run.json says about a run, as plain values: no class that it names is imported."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenworlds.core import files
from tokenworlds.core.files import DamagedFile

RUN, STARTING = "run.json", ".starting"
FORMAT = 3
LONGEST_RUN = 2**22


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """The inputs of a run. `settings` is its recipe, `steps` the agent steps of a whole run.

    `command` is empty and `parameters` None if the run was not started by the command line.
    """

    recipe: str
    size: str
    env: str
    protocol: str
    seed: int
    steps: int
    temperature: float
    precision: str
    device: str
    settings: Mapping[str, Any] = field(repr=False)
    command: str = ""
    parameters: int | None = None
    machine: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def agent(self) -> str:
        return f"{self.recipe} ({self.size})"

    @property
    def version(self) -> str:
        """The commit of the code, or its version where there was no commit; empty if unknown."""
        commit, packages = self.machine.get("commit"), self.machine.get("packages")
        if isinstance(commit, str):
            name, _, changed = commit.partition("-")
            return name[:10] + (f"-{changed}" if changed else "")
        found = packages.get("tokenworlds") if isinstance(packages, dict) else None
        return found if isinstance(found, str) else ""

    @property
    def family(self) -> str:
        return self.env.partition(":")[0]

    @property
    def task(self) -> str:
        """The game of the family, or the family if that is a single game."""
        return self.env.partition(":")[2] or self.env


def read_description(folder: Path, name: str = RUN) -> Description:
    """`DamagedFile` unless the file describes a run in the format of this version."""
    path = folder / name
    document = files.read_json(folder, name, LONGEST_RUN)
    if not isinstance(document, dict):
        raise DamagedFile(path, "it does not hold an object")
    if document.get("format", 1) != FORMAT:
        found = str(document.get("format", 1))[:20]
        raise DamagedFile(path, f"it has format {found}, and this version reads {FORMAT} only")
    try:
        return describe(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFile(path, f"it does not describe a run ({error!r:.80})") from None


def describe(document: Mapping[str, Any]) -> Description:
    run, recipe = document["run"], document["run"]["recipe"]
    parameters = document.get("parameters", {}).get("total")
    return Description(
        recipe=text(run["recipe_name"]),
        size=text(run["size"]),
        env=text(run["env"]["name"]),
        protocol=text(run["env"]["protocol"]),
        seed=whole(run["seed"]),
        steps=whole(recipe["steps"]),
        temperature=float(recipe["evaluation"]["temperature"]),
        precision=text(run.get("precision", "float32")),
        device=text(run.get("device", "cpu")),
        settings=dict(recipe),
        command=text(document.get("command", "")),
        parameters=None if parameters is None else whole(parameters),
        machine=dict(document.get("machine", {})),
    )


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r:.40} is no whole number")
    return value
