"""Trackers by the names of their options."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from tokenworlds.core.errors import UserError, unknown
from tokenworlds.training.callbacks import Callback
from tokenworlds.training.trackers.csv import write_csv
from tokenworlds.training.trackers.mlflow import MlflowTracker
from tokenworlds.training.trackers.tracker import read_records
from tokenworlds.training.trackers.wandb import WandbTracker

SERVICES = {"wandb": WandbTracker, "mlflow": MlflowTracker}
NAMES = ("csv", *SERVICES)


def open_trackers(names: Sequence[str]) -> list[Callback]:
    """A callback for each name; `UserError` if its package is not installed."""
    found: list[Callback] = []
    for name in names:
        if name == "csv":
            found.append(write_csv)
        elif name not in SERVICES:
            raise unknown("tracker", name, NAMES)
        elif importlib.util.find_spec(name) is None:
            raise UserError(f"--{name} needs a package: pip install 'tokenworlds[{name}]'")
        else:
            found.append(SERVICES[name]())
    return found


def forgotten(run: Path, names: Sequence[str]) -> list[str]:
    """A sentence for each service that tracked a run and was not named again.

    A run folder is data: it does not decide that something is sent.
    """
    return [
        f"{name} tracked this run so far: continue that with --{name}"
        for name in read_records(run)
        if name in SERVICES and name not in names
    ]
