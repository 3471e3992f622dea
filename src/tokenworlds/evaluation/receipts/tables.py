"""Markdown tables of receipts. ± is the standard error over seeds."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tokenworlds import published
from tokenworlds.evaluation.comparison.elements import NOTHING, number
from tokenworlds.evaluation.receipts.receipt import LISTED, Receipt
from tokenworlds.evaluation.results import Score, score_of
from tokenworlds.evaluation.statistics import normalise
from tokenworlds.published.references import Reference

NUMERIC = re.compile("$|[0-9\N{MINUS SIGN}\N{EN DASH}]")
SMALLER = "swm"
"""Smaller World Models, whose published scores are the easiest to exceed."""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; columns of numbers are aligned to the right."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    numeric = [all(map(NUMERIC.match, column)) for column in zip(*cells, strict=True)]
    rule = ["---:" if right else "---" for right in numeric]
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, rule, *cells))


def known(value: float | None) -> str:
    return NOTHING if value is None else number(value)


def error_text(score: Score) -> str:
    """Mean ± standard error."""
    return number(score.mean) + ("" if score.error is None else f" ± {number(score.error)}")


def score_text(receipt: Receipt) -> str:
    """Mean ± standard error (seeds), and how far the runs got if they are not finished."""
    score, seeds = receipt.score, len(receipt.seeds)
    if seeds > 1:
        count = str(seeds)
    else:
        count = "1 seed" if score.error is None else "1 seed, ± over episodes"
    text = f"{error_text(score)} ({count})"
    if not receipt.finished:
        text += f" at step {min(seed.step for seed in receipt.seeds):,}, not finished"
    return text


def agent_text(receipt: Receipt) -> str:
    changes = " with " + (
        ", ".join(f"`{change}`" for change in receipt.changes)
        if len(receipt.changes) <= LISTED
        else receipt.change_count
    )
    selected = ", best checkpoint" if receipt.selected else ""
    return f"`{receipt.recipe}`{changes if receipt.changes else ''}{selected}"


def game_text(receipt: Receipt) -> str:
    return f"{receipt.task} (tuned on)" if receipt.tuned_on else receipt.task


def by_game(receipts: Sequence[Receipt]) -> str:
    """A row for each agent, size and length, a column for each game; random and best at the end."""
    games = dict.fromkeys(game_text(r) for r in sorted(receipts, key=lambda r: r.task.lower()))
    rows: dict[tuple[Any, ...], dict[str, str]] = {}
    for receipt in sorted(receipts, key=lambda r: (r.steps, r.size, r.agent, r.protocol)):
        key = (agent_text(receipt), receipt.size, f"{receipt.steps:,}", receipt.protocol)
        rows.setdefault(key, {})[game_text(receipt)] = score_text(receipt)
    cells = [[*key, *(found.get(game, NOTHING) for game in games)] for key, found in rows.items()]
    for name, value in (("random policy", random_of), ("best possible", best_of)):
        values = [value([r for r in receipts if game_text(r) == game]) for game in games]
        if any(found is not None for found in values):
            cells.append([name, "", "", "", *map(known, values)])
    return table(["agent", "size", "steps", "protocol", *games], cells)


def random_of(receipts: Sequence[Receipt]) -> float | None:
    """Every evaluation plays random episodes of its own; this is the mean over receipts."""
    found = [receipt.random for receipt in receipts if receipt.random is not None]
    return sum(found) / len(found) if found else None


def best_of(receipts: Sequence[Receipt]) -> float | None:
    return next((r.references["best"] for r in receipts if "best" in r.references), None)


def atari(receipts: Sequence[Receipt]) -> str:
    columns = (
        "game", "agent", "size", "steps", "return", "human-normalised", "random", "human",
        "published, same agent", "published, Smaller World Models",
    )  # fmt: skip
    ordered = sorted(receipts, key=lambda r: (r.task, r.steps, r.size, r.agent))
    return table(columns, map(atari_row, ordered))


def atari_row(receipt: Receipt) -> list[str]:
    return [
        game_text(receipt),
        agent_text(receipt),
        receipt.size,
        f"{receipt.steps:,}",
        score_text(receipt),
        normalised_text(receipt),
        known(receipt.random if receipt.random is not None else receipt.references.get("random")),
        known(receipt.references.get("human")),
        known(published_score(receipt.recipe, receipt.env)),
        known(published_score(SMALLER, receipt.env)),
    ]


def normalised_text(receipt: Receipt) -> str:
    if "human" not in receipt.references:
        return NOTHING
    to = Reference(receipt.references["random"], receipt.references["human"])
    return error_text(score_of(normalise(receipt.scores, to)))


def published_score(recipe: str, env: str) -> float | None:
    found = published.for_run(recipe, env)
    return found[0].value if found else None


def crafter(receipts: Sequence[Receipt]) -> str:
    columns = (
        "agent", "size", "steps", "return", "Crafter score, %", "random return",
        "random Crafter score, %", "best achievements",
    )  # fmt: skip
    return table(columns, map(crafter_row, sorted(receipts, key=lambda r: (r.steps, r.agent))))


def crafter_row(receipt: Receipt) -> list[str]:
    own = [seed.crafter for seed in receipt.seeds if seed.crafter]
    random = [seed.random_crafter for seed in receipt.seeds if seed.random_crafter]
    success: dict[str, float] = {}
    for found in own:
        for name, rate in found.success.items():
            success[name] = success.get(name, 0.0) + rate / len(own)
    best = sorted(success, key=lambda name: (-success[name], name))[:5]
    return [
        agent_text(receipt),
        receipt.size,
        f"{receipt.steps:,}",
        score_text(receipt),
        number(sum(s.score for s in own) / len(own)) if own else NOTHING,
        known(receipt.random),
        number(sum(s.score for s in random) / len(random)) if random else NOTHING,
        ", ".join(f"{name} {success[name]:.0f} %" for name in best) or NOTHING,
    ]


def runs(receipts: Sequence[Receipt], folder: str) -> str:
    """What was run: one row for each receipt, with a link to it."""
    columns = (
        "receipt",
        "seeds",
        "steps reached",
        "hours of all seeds",
        "threads",
        "processor",
        "commit",
        "command",
    )
    return table(columns, (run_row(receipt, folder) for receipt in receipts))


def run_row(receipt: Receipt, folder: str) -> list[str]:
    label = f"{receipt.recipe} ({receipt.size}), {receipt.env}"
    reached = min(seed.steps for seed in receipt.seeds)
    return [
        f"[{label}]({folder}/{receipt.place})",
        ", ".join(str(seed.seed) for seed in receipt.seeds),
        f"{reached:,}" if receipt.finished else f"{reached:,} of {receipt.steps:,}",
        known(receipt.hours),
        machine_text(receipt, "threads"),
        machine_text(receipt, "processor"),
        machine_text(receipt, "commit", lambda commit: f"`{commit[:12]}`"),
        f"`{command}`" if (command := receipt.seeds[0].command) else NOTHING,
    ]


def machine_text(receipt: Receipt, name: str, show: Callable[[str], str] = str) -> str:
    found = dict.fromkeys(machine.get(name) for machine in receipt.machines)
    return ", ".join(show(str(value)) for value in found if value is not None) or NOTHING


def summary(receipts: Sequence[Receipt]) -> str:
    """The short table: one row for each agent on a benchmark, all its games in one cell."""
    rows: dict[tuple[str, ...], list[Receipt]] = {}
    for receipt in sorted(receipts, key=lambda r: (r.family, r.steps, r.agent, r.task.lower())):
        key = (receipt.family, agent_text(receipt), receipt.size, f"{receipt.steps:,}")
        rows.setdefault(key, []).append(receipt)
    columns = (
        "benchmark",
        "agent",
        "size",
        "steps",
        "mean return, and of a random policy",
        "seeds",
    )
    cells = [
        [*key, "; ".join(map(short_text, of)), span([len(r.seeds) for r in of])]
        for key, of in rows.items()
    ]
    return table(columns, cells)


def short_text(receipt: Receipt) -> str:
    score = error_text(receipt.score)
    if not receipt.finished:
        score += f" at step {min(seed.step for seed in receipt.seeds):,}"
    return f"{game_text(receipt)} {score} ({known(receipt.random)})"


def span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def grouped(receipts: Sequence[Receipt]) -> Mapping[str, list[Receipt]]:
    """By family of environments."""
    found: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        found.setdefault(receipt.family, []).append(receipt)
    return found
