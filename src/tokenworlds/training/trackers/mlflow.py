"""MLflow. `MLFLOW_TRACKING_URI` and `MLFLOW_EXPERIMENT_NAME` are respected."""

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tokenworlds.core.description import to_json
from tokenworlds.training.callbacks import Event
from tokenworlds.training.trackers.tracker import Tracker

EXPERIMENT = "tokenworlds"
LONGEST_VALUE = 500
BATCH = 100


class MlflowTracker(Tracker):
    """The steps of MLflow are agent steps; all settings are parameters, by their paths."""

    name = "mlflow"
    _client: Any = None

    def open(self, event: Event, key: str) -> str:
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient()
        if key:
            self._client.update_run(key, status="RUNNING")
            self._id = key
            return key
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        known = self._client.get_experiment_by_name(name)
        place = known.experiment_id if known else self._client.create_experiment(name)
        self._id = str(self._client.create_run(place, run_name=event.run.name).info.run_id)
        settings = dict(leaves(to_json(event.spec), ""))
        params = [Param(path, str(value)[:LONGEST_VALUE]) for path, value in settings.items()]
        for begin in range(0, len(params), BATCH):
            self._client.log_batch(self._id, params=params[begin : begin + BATCH])
        return self._id

    def send(self, values: Mapping[str, float | int], step: int) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(name, float(value), now, step) for name, value in values.items()]
        self._client.log_batch(self._id, metrics=metrics)

    def close(self, event: Event) -> None:
        finished = event.reason == "finished" or bool(event.values)
        status = "FINISHED" if finished else "KILLED" if event.reason == "stopped" else "FAILED"
        self._client.set_terminated(self._id, status)


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every setting by its dotted path."""
    if not isinstance(value, Mapping) or not value:
        yield path, value
        return
    for name, item in value.items():
        yield from leaves(item, f"{path}.{name}".lstrip("."))
