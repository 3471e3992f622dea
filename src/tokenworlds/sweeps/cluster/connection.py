"""The process that is connected to Ray, one line of JSON for each order and each report.

Ray ends a process that was connected to a head or raylet which is gone. The sweep itself must
outlive that: it starts this process again, on whatever cluster is there then.

Orders, on standard input: {"do": "start", "id", "words", "log"}, {"do": "stop", "id"},
{"do": "kill", "id"}. At the end of the input all runs save and stop. Reports, on standard output:
ready, slots, placed, ended, lost, refused, unreachable.
"""

import json
import math
import os
import queue
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import IO, Any

WAIT = 1.0
"""Seconds for which a worker waits for the end of its run before it hears other calls."""
PAUSE = 0.2
LOOK_AT_NODES = 2.0
REACHABLE = 10.0
"""Seconds in which a head must answer."""
LOST_CODES = (-signal.SIGKILL, 128 + signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM)
INTERRUPTED = 128 + signal.SIGINT
PRIVATE = {
    # Listen on loopback only.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # With a token in a variable Ray writes none to the home folder.
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray's own default is 15, which starves runs beside any other work.
    "RAY_worker_niceness": "0",
}
"""Settings of a cluster that is started here, read when Ray is imported."""
STORE = 80 * 2**20
"""Bytes of Ray's object store, which nothing here uses: the least that Ray takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """`address` is empty to start Ray here; `place` is the folder that paths are relative to."""

    address: str = ""
    cpus: float = 1.0
    gpus: float = 0.0
    threads: int = 1
    place: str = ""

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of a run."""
        # Ray names the cards of a worker, but hides none from a worker without one.
        hidden = {} if self.gpus else {"CUDA_VISIBLE_DEVICES": ""}
        return {"OMP_NUM_THREADS": str(self.threads), **hidden}


@dataclass(slots=True)
class Placement:
    """A run on the cluster: its actor, and the call that it is answering."""

    actor: Any
    call: Any
    placed: bool = False
    stopping: bool = False


@dataclass
class Connection:
    settings: Settings
    reports: IO[str]
    orders: "queue.SimpleQueue[dict[str, Any] | None]"
    runs: dict[int, Placement] = field(default_factory=dict)
    slots: int = -1
    looked: float = -math.inf
    closing: bool = False

    def report(self, kind: str, **values: Any) -> None:
        print(json.dumps({"is": kind, **values}), file=self.reports, flush=True)

    def serve(self) -> None:
        """Until the input has ended and no run is left."""
        while self.runs or not self.closing:
            self.count_slots()
            for order in self.waiting_orders():
                self.obey(order)
            self.hear()

    def waiting_orders(self) -> "Iterator[dict[str, Any] | None]":
        """All orders that have come; without runs there is nothing else to wait for."""
        try:
            yield self.orders.get(timeout=0.0 if self.runs or self.closing else PAUSE)
            while True:
                yield self.orders.get_nowait()
        except queue.Empty:
            return

    def obey(self, order: Mapping[str, Any] | None) -> None:
        if order is None:
            self.closing = True
            for number in list(self.runs):
                self.stop(number)
        elif order["do"] == "start":
            self.start(order["id"], order["words"], order["log"])
        elif order["do"] == "stop":
            self.stop(order["id"])
        elif order["do"] == "kill":
            self.end(order["id"], "ended", code=-signal.SIGKILL)

    def start(self, number: int, words: list[str], log: str) -> None:
        import ray

        from tokenworlds.sweeps.cluster.worker import Worker

        resources = {"num_cpus": self.settings.cpus, "num_gpus": self.settings.gpus}
        actor = ray.remote(max_restarts=0, max_task_retries=0, **resources)(Worker).remote()
        call = actor.begin.remote(words, log, self.settings.place, self.settings.variables)
        self.runs[number] = Placement(actor, call)

    def stop(self, number: int) -> None:
        run = self.runs.get(number)
        if run is not None and run.placed:
            run.stopping = True
            run.actor.stop.remote()
        elif run is not None:
            self.end(number, "ended", code=INTERRUPTED)

    def end(self, number: int, kind: str, **values: Any) -> None:
        """Give back the resources of a run, and report its end."""
        import ray

        run = self.runs.pop(number, None)
        if run is not None:
            ray.kill(run.actor)
            self.report(kind, id=number, **values)

    def hear(self) -> None:
        """Collect the answers of workers."""
        import ray

        if not self.runs:
            return
        calls = {run.call: number for number, run in self.runs.items()}
        answered, _ = ray.wait(list(calls), num_returns=len(calls), timeout=PAUSE)
        for call in answered:
            self.take_answer(calls[call], call)

    def take_answer(self, number: int, call: Any) -> None:
        import ray
        from ray.exceptions import ActorUnavailableError, RayError, RayTaskError

        run = self.runs[number]
        try:
            answer = ray.get(call)
        except ActorUnavailableError as error:
            # It may come back; if it is dead, the next call says so.
            if run.placed:
                run.call = run.actor.wait.remote(WAIT)
            else:
                self.end(number, "lost", why=lost_by(error))
            return
        except RayTaskError as error:
            self.end(number, "refused", why=f"its worker failed: {first_line(error.cause)}")
            return
        except RayError as error:
            self.end(number, "lost", why=lost_by(error))
            return
        if not run.placed:
            self.place(number, run, answer)
        elif answer is None:
            run.call = run.actor.wait.remote(WAIT)
        elif answer in LOST_CODES and not run.stopping:
            self.end(number, "lost", why=f"a signal ended it (exit code {answer})")
        else:
            self.end(number, "ended", code=answer)

    def place(self, number: int, run: Placement, refusal: str) -> None:
        """The first answer: the run has begun, or cannot."""
        if refusal:
            self.end(number, "refused", why=refusal)
            return
        run.placed = True
        run.call = run.actor.wait.remote(WAIT)
        self.report("placed", id=number)

    def count_slots(self) -> None:
        """Report how many runs the nodes can hold, if that has changed."""
        import ray

        if time.monotonic() < self.looked + LOOK_AT_NODES:
            return
        self.looked = time.monotonic()
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        slots = sum(slots_of(resources, self.settings) for resources in alive)
        if slots != self.slots:
            self.slots = slots
            self.report("slots", count=slots, nodes=len(alive))


def slots_of(resources: Mapping[str, float], settings: Settings) -> int:
    """How many runs fit on a node."""
    needs = {"CPU": settings.cpus, "GPU": settings.gpus}
    # Ray counts in ten-thousandths: 0.1 fits ten times into 1.
    counts = [
        round(resources.get(kind, 0.0) * 1e4) // round(need * 1e4)
        for kind, need in needs.items()
        if need
    ]
    return min(counts, default=0)


def lost_by(error: Exception) -> str:
    return f"its worker was lost ({type(error).__name__})"


def first_line(error: object) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def connect(settings: Settings, scratch: str) -> None:
    """Connect to a running cluster, or start one that only this process can reach."""
    if not settings.address:
        os.environ.update(PRIVATE, RAY_AUTH_TOKEN=secrets.token_hex(32))
    import ray

    common: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if settings.address:
        check_reachable(settings.address)
        ray.init(address=settings.address, **common)
    else:
        ray.init(
            address="local",
            include_dashboard=False,
            object_store_memory=STORE,
            _temp_dir=scratch,
            **common,
        )


def check_reachable(address: str) -> None:
    """Raise an error at once: Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), REACHABLE).close()


def read_orders(orders: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    orders.put(None)


def main() -> int:
    settings = Settings(**json.loads(sys.argv[1]))
    # Reports alone go to standard output, whatever Ray prints.
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    orders: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    connection = Connection(settings, reports, orders)
    threading.Thread(target=read_orders, args=(orders,), daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as scratch:
        try:
            connect(settings, scratch)
        except Exception as error:
            connection.report("unreachable", why=first_line(error))
            return 1
        connection.report("ready")
        connection.serve()
        import ray

        ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
