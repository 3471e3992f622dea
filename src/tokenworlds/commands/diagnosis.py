"""Checks of a machine: installed packages, devices, environments, and a tiny training run."""

import contextlib
import io
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal

import torch

from tokenworlds.benchmarking.meters import available_memory
from tokenworlds.commands import card
from tokenworlds.commands.screen import PlainScreen
from tokenworlds.core.config import variant
from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import Precision, best_precision, lack_of_bfloat16
from tokenworlds.envs.catalogue import EnvSpec, example_spec
from tokenworlds.envs.rendering import VARIABLE
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.machine import processor
from tokenworlds.runs.recipe import Recipe
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.loop import Loop

GIB = 2**30
State = Literal["good", "note", "bad"]
ENOUGH = 2 * GIB
"""Free memory and disk space that the smallest size needs, with some reserve."""
WITHOUT = ", or with --precision float32"
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
    """The result of one check; "bad" prevents training, "note" does not."""

    name: str
    state: State
    text: str


def diagnose(recipe: Recipe, folder: Path) -> Iterator[Finding]:
    """All checks, the quick ones first: disk space for `folder`, a tiny run of `recipe`."""
    yield Finding("python", "good", f"{platform.python_version()} on {platform.platform()}")
    yield from packages()
    yield Finding("device", "good", device())
    yield from precision("cuda" if torch.cuda.is_available() else "cpu")
    if torch.cuda.is_available():
        yield from check_card("cuda")
    yield Finding("threads", "good", f"{torch.get_num_threads()} of {os.cpu_count()} cores")
    yield free_space("disk", shutil.disk_usage(existing(folder)).free, f"free for {folder}")
    available = available_memory()
    if available is not None:
        yield free_space("memory", available, "available")
    yield attempt("toy:catch", partial(reset_env, "catch"))
    for name in ("atari:Pong", "crafter", "minatar:breakout", "gym:CartPole-v1"):
        yield attempt(name, partial(reset_env, name), failure="note")
    yield attempt("rendering", render_control, failure="note")
    yield attempt("training", partial(train_tiny, recipe))


def packages() -> Iterator[Finding]:
    """The version of each required package; extras may be missing."""
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
    """The device that `auto` chooses."""
    if torch.cuda.is_available():
        return f"cuda: {torch.cuda.get_device_name()}"
    return f"cpu: {processor()}"


def precision(device: str) -> Iterator[Finding]:
    """The precision that `auto` chooses, and whether bfloat16 works."""
    yield Finding("precision", "good", f"{best_precision(device)} unless --precision is given")
    lack = lack_of_bfloat16(device)
    text = f"refused: {lack}" if lack else f"allowed on {device}"
    yield Finding("bfloat16", "note" if lack else "good", text)


def check_card(device: str, families: Sequence[str] = card.FAMILIES) -> Iterator[Finding]:
    """One update of each family on the card, compared with the CPU, in each precision."""
    failed = []
    for precision in card.precisions(device):
        for family in families:
            found = attempt(f"{family} {precision}", partial(agreement, family, device, precision))
            failed += [found.name] if found.state == "bad" else []
            yield found
    if failed:
        yield Finding(
            "report",
            "note",
            f"{len(failed)} of the checks of the card failed. Please open an issue with the output "
            "of 'tokenworlds doctor --json' and of 'nvidia-smi'; until then, train with "
            "--device cpu" + ("" if any("float32" in name for name in failed) else WITHOUT),
        )


def agreement(family: str, device: str, precision: Precision) -> str:
    found = card.compare(family, device, precision)
    if not found.agrees:
        raise UserError(found.text())
    return found.text()


def free_space(name: str, free: int, what: str) -> Finding:
    return Finding(name, "good" if free >= ENOUGH else "note", f"{free / GIB:.1f} GiB {what}")


def existing(folder: Path) -> Path:
    """The folder or its nearest existing parent."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.exists())


def render_control() -> str:
    text = reset_env("dmc:cartpole-balance")
    return f"dmc:cartpole-balance {text}, by {os.environ.get(VARIABLE) or 'the default of MuJoCo'}"


def reset_env(name: str) -> str:
    env = example_spec(name).make()
    shape = env.reset(0).shape
    env.close()
    return f"resets, frames of {' x '.join(map(str, shape))}"


def train_tiny(recipe: Recipe) -> str:
    """Train and save a tiny run in a temporary folder."""
    small = variant(recipe, {**TINY, "behaviour.horizon": 2})
    env = EnvSpec("catch", size=small.resolution, grey=small.grey)
    threads = torch.get_num_threads()
    spec = RunSpec(
        recipe_name="doctor", size="nano", recipe=small, env=env, seed=0, threads=threads
    )
    with tempfile.TemporaryDirectory() as parent:
        folder = RunFolder.create(Path(parent) / "run", spec)
        with contextlib.redirect_stdout(io.StringIO()):
            loop = Loop(spec, folder, PlainScreen(spec, folder.path))
            loop.begin()
            loop.run(lambda: False)
        updates = dict(loop.trainer.progress.updates)
        loop.close()
    return ", ".join(f"{count} updates of the {name}" for name, count in updates.items())


def attempt(name: str, act: Callable[[], str], failure: State = "bad") -> Finding:
    """Call `act`; what it raises becomes a finding too."""
    try:
        return Finding(name, "good", act())
    except UserError as error:
        return Finding(name, failure, str(error))
    except Exception as error:
        return Finding(name, failure, f"{type(error).__name__}: {error}")
