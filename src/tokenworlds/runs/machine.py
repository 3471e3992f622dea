"""Versions, commit and hardware that a run was started with."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

ENVIRONMENTS = ("gymnasium", "ale-py", "MinAtar", "crafter", "dm-control", "mujoco")
PACKAGES = ("tokenworlds", "torch", "numpy", *ENVIRONMENTS)


def describe_machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := installed(name))},
        "commit": git_commit(),
        "system": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def git_commit() -> str | None:
    """The commit of this code, if it runs from a git checkout."""
    # An installed package may lie inside the checkout of another project.
    if not ask_git("ls-files", Path(__file__).name):
        return None
    return ask_git("describe", "--always", "--dirty", "--abbrev=40")


def ask_git(*command: str) -> str | None:
    """What git prints about the folder of this file, if anything."""
    git = ["git", "-C", str(Path(__file__).resolve().parent), *command]
    try:
        found = subprocess.run(git, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
