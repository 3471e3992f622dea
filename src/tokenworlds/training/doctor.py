"""Whether a machine is fit to train on: what is installed, what it can compute, what works."""

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal

import torch

from tokenworlds.core.config import variant
from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import best_precision, lack_of_bfloat16
from tokenworlds.envs.rendering import VARIABLE
from tokenworlds.envs.spec import EnvSpec
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.machine import processor
from tokenworlds.runs.recipe import Recipe
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.loop import Loop

GIB = 2**30
ENOUGH = 2 * GIB
"""Free memory and disk space that the smallest size asks for, with room to spare."""
TINY: Mapping[str, Any] = {
    "steps": 48,
    "num_envs": 2,
    "learning.world.batch": 2,
    "learning.world.length": 4,
    "learning.behaviour.batch": 4,
    "learning.behaviour.length": 2,
    "schedule.warm_up": 40,
    "schedule.updates": {"world": 0.25, "behaviour": 0.25},
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: "bad" keeps training from working, "note" is worth knowing."""

    name: str
    state: Literal["good", "note", "bad"]
    said: str


def examine(recipe: Recipe, folder: Path) -> Iterator[Finding]:
    """Everything, quick things first; `folder` is where runs would go, `recipe` is tried out."""
    yield Finding("python", "good", f"{platform.python_version()} on {platform.platform()}")
    yield from packages()
    yield Finding("device", "good", device())
    yield from precision("cuda" if torch.cuda.is_available() else "cpu")
    yield Finding("threads", "good", f"{torch.get_num_threads()} of {os.cpu_count()} cores")
    yield room("disk", shutil.disk_usage(existing(folder)).free, f"free for {folder}")
    yield from memory()
    yield attempt("toy:catch", partial(begin, "catch"))
    yield from games()
    yield renderer()
    yield attempt("training", partial(train_a_little, recipe))


def packages() -> Iterator[Finding]:
    """The version of each package that the project asks for; extras may be absent."""
    for requirement in requires("tokenworlds") or ():
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"]([\w-]+)", requirement)
        if extra and extra[1] == "dev":
            continue
        try:
            yield Finding(name, "good", version(name) + (f" (extra {extra[1]})" if extra else ""))
        except PackageNotFoundError:
            hint = f"not installed: pip install 'tokenworlds[{extra[1]}]'" if extra else "missing"
            yield Finding(name, "note" if extra else "bad", hint)


def device() -> str:
    """What `auto` computes on."""
    if torch.cuda.is_available():
        return f"cuda: {torch.cuda.get_device_name()}"
    return f"cpu: {processor()}"


def precision(place: str) -> Iterator[Finding]:
    """What `auto` computes in on a device, and whether bfloat16 is to be had."""
    yield Finding("precision", "good", f"{best_precision(place)} unless --precision says otherwise")
    lack = lack_of_bfloat16(place)
    said = f"refused: {lack}" if lack else f"allowed on {place}"
    yield Finding("bfloat16", "note" if lack else "good", said)


def room(name: str, free: int, what: str) -> Finding:
    """Whether there is enough of something."""
    return Finding(name, "good" if free >= ENOUGH else "note", f"{free / GIB:.1f} GiB {what}")


def existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.exists())


def memory() -> Iterator[Finding]:
    """Memory that may be used, where the system tells."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return
    found = re.search(r"^MemAvailable:\s*(\d+) kB", text, re.MULTILINE)
    if found:
        yield room("memory", int(found[1]) * 1024, "available")


def games() -> Iterator[Finding]:
    """One game of each family beyond the built-in ones; a missing extra is no fault."""
    for name in ("atari:Pong", "crafter", "minatar:breakout", "gym:CartPole-v1"):
        yield no_fault(attempt(name, partial(begin, name)))


def renderer() -> Finding:
    """What DeepMind Control is drawn by, or what would have to be installed."""
    return no_fault(attempt("rendering", draw))


def draw() -> str:
    """Draw a frame of DeepMind Control."""
    said = begin("dmc:cartpole-balance")
    return f"dmc:cartpole-balance {said}, by {os.environ.get(VARIABLE) or 'what MuJoCo chose'}"


def no_fault(found: Finding) -> Finding:
    """The finding, of something that training can do without."""
    return replace(found, state="note") if found.state == "bad" else found


def begin(name: str) -> str:
    """Begin a game."""
    env = EnvSpec(name).make()
    shape = env.reset(0).shape
    env.close()
    return f"begins, frames of {' x '.join(map(str, shape))}"


def train_a_little(recipe: Recipe) -> str:
    """A few updates of everything, saved, in a folder that is deleted."""
    small = variant(recipe, {**TINY, "behaviour.horizon": 2})
    env = EnvSpec("catch", size=small.resolution, grey=small.grey)
    threads = torch.get_num_threads()
    spec = RunSpec(
        recipe_name="doctor", size="nano", recipe=small, env=env, seed=0, threads=threads
    )
    with tempfile.TemporaryDirectory() as place:
        loop = Loop(spec, RunFolder.create(Path(place) / "run", spec), Silence())
        loop.begin()
        loop.run(lambda: False)
        updates = dict(loop.job.progress.updates)
        loop.close()
    return ", ".join(f"{count} updates of the {name}" for name, count in updates.items())


def attempt(name: str, act: Callable[[], str]) -> Finding:
    """Try something; whatever it raises is the finding."""
    try:
        return Finding(name, "good", act())
    except UserError as error:
        return Finding(name, "bad", str(error))
    except Exception as error:
        return Finding(name, "bad", f"{type(error).__name__}: {error}")


class Silence:
    """A screen that shows nothing."""

    def event(self, event: Mapping[str, Any]) -> None:
        """Nothing is shown."""

    def progress(
        self, steps: int, rates: Mapping[str, float], seconds_left: float | None, share: float
    ) -> None:
        """Nothing is shown."""

    def note(self, text: str) -> None:
        """Nothing is shown."""
