"""Which runs are planned, which of them have no receipt yet, and how long they would take.

results/plan.json lists the runs. Hours come from receipts of the same agent, size and kind of game,
or else from outputs of `tokenworlds bench --json` in results/bench/.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenworlds.core import files
from tokenworlds.core.files import DamagedFile
from tokenworlds.evaluation.comparison.elements import NOTHING, number
from tokenworlds.evaluation.receipts.receipt import BENCH, Receipt
from tokenworlds.evaluation.receipts.tables import table

PLAN = "plan.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """Every agent on every game with every seed."""

    agents: tuple[str, ...]
    games: tuple[str, ...]
    seeds: tuple[int, ...]
    size: str
    steps: int
    assignments: tuple[str, ...] = ()
    protocol: str = ""
    """The environment's first, if empty."""

    @property
    def family(self) -> str:
        return self.games[0].partition(":")[0]

    def command(self, agent: str, game: str, seed: int | str) -> str:
        words = ["tokenworlds", "train", agent, "--env", game, "--size", self.size]
        words += ["--protocol", self.protocol] if self.protocol else []
        words += ["--steps", str(self.steps), "--seed", str(seed)]
        return shlex.join([*words, *(["--set", *self.assignments] if self.assignments else [])])


@dataclass(frozen=True, slots=True)
class Rate:
    """Seconds for an agent step with all updates that it causes, and where they were measured."""

    seconds: float
    source: str


Rates = Mapping[tuple[str, str, str], Rate]
"""By recipe, size and family of environments."""


def read_plan(folder: Path) -> list[Planned]:
    if not (folder / PLAN).exists():
        return []
    try:
        return [to_planned(entry) for entry in files.read_json(folder, PLAN)["runs"]]
    except (KeyError, TypeError) as error:
        raise DamagedFile(folder / PLAN, f"it is no plan ({error!s:.80})") from None


def to_planned(entry: Mapping[str, Any]) -> Planned:
    return Planned(
        agents=tuple(entry["agents"]),
        games=tuple(entry["games"]),
        seeds=tuple(entry["seeds"]),
        size=entry["size"],
        steps=entry["steps"],
        assignments=tuple(entry["set"]),
        protocol=entry.get("protocol", ""),
    )


def missing(planned: Planned, agent: str, receipts: Sequence[Receipt]) -> dict[str, list[int]]:
    """By game, the seeds of an agent that have no finished run in a receipt."""
    done = {
        (receipt.env, seed.seed)
        for receipt in receipts
        if (receipt.agent, receipt.size, receipt.steps) == (agent, planned.size, planned.steps)
        and planned.protocol in ("", receipt.protocol)
        for seed in receipt.seeds
        if seed.finished
    }
    found = {
        game: [seed for seed in planned.seeds if (game, seed) not in done] for game in planned.games
    }
    return {game: seeds for game, seeds in found.items() if seeds}


def rates_of(folder: Path, receipts: Sequence[Receipt]) -> Rates:
    """Receipts take precedence: their time includes acting and evaluation."""
    rates: dict[tuple[str, str, str], Rate] = {}
    for path in sorted((folder / BENCH).glob("*.json")):
        rates |= bench_rates(path)
    for receipt in receipts:
        steps = sum(seed.steps for seed in receipt.seeds)
        if receipt.hours:
            rate = Rate(3600 * receipt.hours / steps, "receipts")
            rates[receipt.recipe, receipt.size, receipt.family] = rate
    return rates


def bench_rates(path: Path) -> Rates:
    document = files.read_json(path.parent, path.name)
    try:
        family = document["env"].partition(":")[0]
        return {
            (entry["recipe"], entry["size"], family): Rate(
                float(entry["per_step"]["total_seconds"]), "`bench`"
            )
            for entry in document["recipes"]
        }
    except (KeyError, TypeError, AttributeError, ValueError):
        raise DamagedFile(path, "it is no output of 'tokenworlds bench --json'") from None


def not_run(plan: Sequence[Planned], receipts: Sequence[Receipt], rates: Rates) -> str:
    parts = [text for planned in plan if (text := part(planned, receipts, rates))]
    return "\n\n".join(parts) or "Every planned run has a receipt."


def part(planned: Planned, receipts: Sequence[Receipt], rates: Rates) -> str:
    """The agents of an entry of the plan that lack runs, below a command for all of them."""
    lacking = {agent: missing(planned, agent, receipts) for agent in planned.agents}
    rows = [row(planned, agent, games, rates) for agent, games in lacking.items() if games]
    if not rows:
        return ""
    columns = ("agent", "games", "runs", "hours of a run", "hours of all", "measured by")
    return f"`{planned.command('AGENT', 'GAME', 'SEED')}`\n\n{table(columns, rows)}"


def row(
    planned: Planned, agent: str, games: Mapping[str, Sequence[int]], rates: Rates
) -> list[str]:
    rate = rates.get((agent, planned.size, planned.family))
    hours = None if rate is None else planned.steps * rate.seconds / 3600
    runs = sum(map(len, games.values()))
    return [
        f"`{agent}`",
        ", ".join(games),
        str(runs),
        NOTHING if hours is None else number(hours),
        NOTHING if hours is None else number(hours * runs),
        NOTHING if rate is None else rate.source,
    ]
