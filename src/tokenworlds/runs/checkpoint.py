"""Checkpoints: written to a temporary folder, synced, renamed; read only if all bytes verify."""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor

from tokenworlds.core import files
from tokenworlds.core.errors import UserError
from tokenworlds.core.files import DamagedFile

STATE, MANIFEST, RUN = "state.json", "manifest.json", "run.json"
LATEST = "latest"
ASIDE = "damaged-"
SUFFIX = ".safetensors"
STEP, BEST = "step", "best"
"""Kinds of checkpoints: a run continues from `step-…`; `best-…` holds the agent alone."""
NAME = re.compile(r"(step|best)-(\d{9,18})")
FILE = re.compile(r"\w+\.(safetensors|json)")
LONGEST_MANIFEST = 2**20


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Named sets of tensors, one safetensors file each, and all other state as JSON.

    `run` is the content of run.json at the time. `place` is the folder that a checkpoint was read
    from, `manifest` the hash of its manifest.
    """

    tensors: Mapping[str, Mapping[str, Tensor]]
    state: Mapping[str, Any]
    run: bytes = b""
    place: Path = field(default=Path(), compare=False)
    manifest: str = ""


def folder_name(step: int, kind: str = STEP) -> str:
    """Zero-padded, so that names sort like steps."""
    return f"{kind}-{step:09d}"


def step_of(path: Path) -> int:
    """The step in a checkpoint's name."""
    found = NAME.fullmatch(path.name)
    return int(found[2]) if found else -1


def write(folder: Path, step: int, checkpoint: Checkpoint, kind: str = STEP) -> str:
    """Write a checkpoint completely or not at all; returns the hash of its manifest."""
    target = folder / folder_name(step, kind)
    partial = folder / f"{files.PARTIAL}{target.name}"
    folder.mkdir(parents=True, exist_ok=True)
    tidy(folder)
    partial.mkdir()
    try:
        manifest = write_files(partial, checkpoint)
        files.remove_tree(target)
        partial.rename(target)
    except BaseException:
        files.remove_tree(partial)
        raise
    files.sync(folder)
    return manifest


def write_files(folder: Path, checkpoint: Checkpoint) -> str:
    """Write the files of a checkpoint, then the manifest with their sizes and hashes.

    Returns the hash of the manifest.
    """
    manifest = {}
    for name, content in contents(checkpoint):
        files.write_file(folder, name, content)
        manifest[name] = [len(content), files.sha256(content)]
    content = json.dumps(manifest, indent=1).encode()
    files.write_file(folder, MANIFEST, content)
    files.sync(folder)
    return files.sha256(content)


def contents(checkpoint: Checkpoint) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files, one after the other."""
    for name, tensors in checkpoint.tensors.items():
        plain = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        yield f"{name}{SUFFIX}", safetensors.save(plain)
    yield STATE, json.dumps(checkpoint.state, allow_nan=False).encode()
    yield RUN, checkpoint.run


def read(folder: Path) -> Checkpoint:
    """Read a checkpoint; raises `DamagedFile` unless every file verifies."""
    content = files.read_bytes(folder, MANIFEST, LONGEST_MANIFEST)
    manifest = checked_manifest(files.parse_json(content, folder / MANIFEST), folder / MANIFEST)
    found = {name: read_file(folder, name, *extent) for name, extent in manifest.items()}
    tensors = {
        name.removesuffix(SUFFIX): read_tensors(data, folder / name)
        for name, data in found.items()
        if name.endswith(SUFFIX)
    }
    state = files.parse_json(found[STATE], folder / STATE)
    if not isinstance(state, dict):
        raise DamagedFile(folder / STATE, "it does not hold an object")
    return Checkpoint(tensors, state, found[RUN], folder, files.sha256(content))


def checked_manifest(document: Any, path: Path) -> dict[str, tuple[int, str]]:
    """Sizes and hashes by name, where the document has this form."""
    if not isinstance(document, dict) or not {STATE, RUN} <= document.keys():
        raise DamagedFile(path, f"it does not list {STATE} and {RUN}")
    for name, extent in document.items():
        match extent:
            case [int(size), str()] if size >= 0 and FILE.fullmatch(name):
                continue
        raise DamagedFile(path, f"its entry {name[:100]!r} is none of a checkpoint")
    return {name: (size, expected) for name, (size, expected) in document.items()}


def read_file(folder: Path, name: str, size: int, expected: str) -> bytes:
    content = files.read_bytes(folder, name, physical_memory(), size)
    if files.sha256(content) != expected:
        raise DamagedFile(folder / name, "it is not as it was written")
    return content


def read_tensors(content: bytes, path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.load(content)
    except (SafetensorError, ValueError) as error:
        raise DamagedFile(path, str(error)[:100]) from None


@contextlib.contextmanager
def explaining_misfits(checkpoint: Checkpoint) -> Iterator[None]:
    """Turn the error of a state with other values than this version writes into a sentence."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise UserError(
            f"checkpoint {checkpoint.place} does not fit the run's recipe: {reason}"
        ) from error


def physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def newest_first(folder: Path, kind: str = STEP) -> list[Path]:
    found = [path for path in folder.glob(f"{kind}-*") if step_of(path) >= 0]
    return sorted(found, key=step_of, reverse=True)


def write_latest(folder: Path, step: int) -> None:
    """Note which checkpoint is the newest, so that its loss is noticed."""
    files.replace_file(folder / LATEST, f"{folder_name(step)}\n".encode())


def is_latest(path: Path) -> bool:
    """Whether a checkpoint is the one that was written last."""
    return (path.parent / LATEST).is_file() and latest_name(path.parent) == path.name


def latest_name(folder: Path) -> str:
    """The name of the checkpoint that was written last; empty if the file is damaged."""
    try:
        return files.read_bytes(folder, LATEST, 100).decode(errors="replace").strip()
    except DamagedFile:
        return ""


def missing(folder: Path) -> list[str]:
    """A sentence if the checkpoint that was written last is not there."""
    if not (folder / LATEST).exists():
        return []
    latest = folder / latest_name(folder)
    if step_of(latest) < 0:
        return [f"{folder / LATEST} is damaged: it names no checkpoint"]
    found = newest_first(folder)
    if found and step_of(found[0]) < step_of(latest):
        return [f"checkpoint {latest.name} is skipped: it is missing"]
    return []


def prune(folder: Path, step: int, keep: int) -> None:
    """Delete all but the newest `keep` checkpoints up to `step`.

    Later ones were damaged, since the run went on from an earlier one: they are set aside.
    """
    found = newest_first(folder)
    for path in found:
        if step_of(path) > step:
            aside = path.with_name(f"{ASIDE}{path.name}")
            files.remove_tree(aside)
            path.rename(aside)
    for path in [path for path in found if step_of(path) <= step][keep:]:
        files.remove_tree(path)


def superseded(folder: Path, best: int | None) -> list[Path]:
    """Best checkpoints of other steps than the best one, which must be there."""
    found = newest_first(folder, BEST)
    if best is not None and best not in map(step_of, found):
        return []
    return [path for path in found if step_of(path) != best]


def tidy(folder: Path) -> None:
    """Delete what a killed process left half written or half deleted."""
    files.remove_partial_files(folder)
    for state in (files.PARTIAL, files.DELETING):
        for kind in (STEP, BEST):
            for path in folder.glob(f"{state}{kind}-*"):
                files.remove_tree(path)
