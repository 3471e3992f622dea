"""Two documents side by side: how many times as fast each piece of work is now."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenworlds.benchmarking.documents import Document, read_document
from tokenworlds.core.errors import UserError

CIRCUMSTANCES = ("env", "threads")
STEP = "all of a step"
"""What the updates for an environment step come to."""
OTHER_WORK = "not the same work"
OTHER_FRACTION = "another fraction was measured"


@dataclass(frozen=True, slots=True)
class Change:
    """What a figure was and is, in cal; above 1 the `ratio` says how many times as fast it is now.

    A `remark` says why the two should not be compared, if so.
    """

    recipe: str
    size: str
    name: str
    before: float
    now: float
    ratio: float
    remark: str = ""


def read_old(path: Path) -> Document:
    """A document to compare with, if it holds all that is compared."""
    found = read_document(path)
    try:
        compare(found, found)
        differences(found, found)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged: {type(error).__name__}: {error}") from error
    return found


def compare(before: Document, now: Document) -> list[Change]:
    """All figures that are in both, in the order of the new one, and each recipe's whole step."""
    old = {(each["recipe"], each["size"]): each for each in before["recipes"]}
    changes: list[Change] = []
    for account in now["recipes"]:
        known = old.get((account["recipe"], account["size"]))
        if known is not None:
            changes += compare_accounts(known, account)
    return changes


def compare_accounts(before: Document, now: Document) -> Iterator[Change]:
    """One recipe: its figures, and what all updates for an environment step come to."""
    old = {figure["name"]: figure for figure in before["figures"]}
    remarks = set()
    for figure in now["figures"]:
        known = old.get(figure["name"])
        if known is not None:
            said = remark(known, figure)
            remarks |= {said} if figure["kind"] == "update" else set()
            yield change(now, figure["name"], known["cal"], figure["cal"], said)
    was, is_now = before["per_step"], now["per_step"]
    remarks |= {OTHER_WORK} if was["updates"] != is_now["updates"] else set()
    said = next((each for each in (OTHER_WORK, OTHER_FRACTION) if each in remarks), "")
    yield change(now, STEP, was["total_cal"], is_now["total_cal"], said)


def remark(before: Document, now: Document) -> str:
    """Why two figures should not be compared; nothing if they may."""
    if any(before[key] != now[key] for key in ("batch", "steps")):
        return OTHER_WORK
    return "" if before["rows"] == now["rows"] else OTHER_FRACTION


def change(account: Document, name: str, before: float, now: float, said: str) -> Change:
    """The pair with its ratio; of nothing there is none."""
    ratio = before / now if now else float(before == now)
    return Change(account["recipe"], account["size"], name, before, now, ratio, said)


def differences(before: Document, now: Document) -> list[str]:
    """A word on each circumstance that is another, for which cal may not make up."""
    said = [
        f"{name} was {before.get(name)}, is {now[name]}"
        for name in CIRCUMSTANCES
        if before.get(name) != now[name]
    ]
    return said + [
        f"{name} was {was}, is {now_is}"
        for name, was, now_is in machine_pairs(before["machine"], now["machine"])
        if was != now_is
    ]


def machine_pairs(before: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """What of the machine tells on speed."""
    yield "the processor", before.get("processor"), now.get("processor")
    packages = [each.get("packages", {}).get("torch") for each in (before, now)]
    yield "torch", packages[0], packages[1]
