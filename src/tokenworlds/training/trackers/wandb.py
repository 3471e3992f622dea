"""Weights & Biases. `WANDB_MODE=offline`, `WANDB_PROJECT` and its other variables are respected."""

import os
from collections.abc import Mapping
from typing import Any

from tokenworlds.core.description import to_json
from tokenworlds.training.callbacks import Event
from tokenworlds.training.trackers.tracker import Tracker

PROJECT = "tokenworlds"


class WandbTracker(Tracker):
    """The steps of wandb are agent steps. Its files are in ./wandb, not in the run folder."""

    name = "wandb"
    _run: Any = None

    def open(self, event: Event, key: str) -> str:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=event.run.name,
            id=key or None,
            resume="allow",
            config=to_json(event.spec),
            # Its copy of standard output would disturb the live screen.
            settings=wandb.Settings(console="off"),
        )
        self._run.define_metric("*", step_metric="agent_steps")
        return str(self._run.id)

    def send(self, values: Mapping[str, float | int], step: int) -> None:
        # Without a step of its own: a log and an evaluation may have the same agent steps.
        self._run.log({"agent_steps": step, **values})

    def close(self, event: Event) -> None:
        failed = event.reason not in ("finished", "stopped") and not event.values
        self._run.finish(exit_code=1 if failed else 0)
