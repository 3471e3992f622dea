"""Checkpoints: written to a temporary folder, synced, renamed; read only if all bytes verify."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from tokenworlds.replay.store import sync

STATE = "state.json"
MANIFEST = "manifest.json"


class DamagedCheckpoint(Exception):
    """A file of a checkpoint is missing or not as it was written."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Named sets of tensors, one safetensors file each, and all other state as JSON."""

    tensors: Mapping[str, Mapping[str, Tensor]]
    state: Mapping[str, Any]


def folder_name(step: int) -> str:
    """Zero-padded, so that names sort like steps."""
    return f"step-{step:09d}"


def write(folder: Path, step: int, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint completely or not at all."""
    target = folder / folder_name(step)
    partial = folder / f".partial-{target.name}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        write_files(partial, checkpoint)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sync(folder)
    return target


def write_files(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the files of a checkpoint, then the manifest with their hashes."""
    for name, tensors in checkpoint.tensors.items():
        plain = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        save_tensors(plain, folder / f"{name}.safetensors")
    (folder / STATE).write_text(json.dumps(checkpoint.state))
    manifest = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
    for path in folder.iterdir():
        sync(path)
    sync(folder)


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write a safetensors file; raises `OSError` for a full disk, unlike the library."""
    try:
        save_file(tensors, path)
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def read(folder: Path) -> Checkpoint:
    """Read a checkpoint; raises `DamagedCheckpoint` unless every file verifies."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        for name, expected in manifest.items():
            if sha256(folder / name) != expected:
                raise DamagedCheckpoint(f"{folder}: {name} is not as it was written")
        tensors = {
            Path(name).stem: load_file(folder / name)
            for name in manifest
            if name.endswith(".safetensors")
        }
        return Checkpoint(tensors, json.loads((folder / STATE).read_text()))
    except (OSError, ValueError, SafetensorError) as error:
        raise DamagedCheckpoint(f"{folder}: {error}") from error


def newest_first(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("step-*"), reverse=True)


def prune(folder: Path, keep: int) -> None:
    for path in list(newest_first(folder))[keep:]:
        shutil.rmtree(path)


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
