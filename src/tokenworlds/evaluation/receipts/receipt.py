"""The content of a receipt, and its text: sorted keys, rounded numbers, one line for a series."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tokenworlds.core import files
from tokenworlds.core.files import DamagedFile, sha256
from tokenworlds.evaluation.results import CrafterScore, Score, numbers, score_of

FORMAT = 1
AFTER, DURING = "after training", "during training"
LAST, BEST = "last", "best"
LONGEST = 2**22
DIGITS = 6
BENCH = "bench"
"""The folder beside the receipts with outputs of `tokenworlds bench --json`."""
TUNED_ON = (
    "toy:catch",
    "minatar:breakout",
    "minatar:asterix",
    "atari:Boxing",
    "atari:KungFuMaster",
    "atari:Pong",
    "crafter",
)
"""Games on which settings of the recipes were chosen; scores on others were not selected."""


KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("recipe", "size", "env", "protocol", "checkpoint", "settings"), str),
    **dict.fromkeys(("changes", "machines", "seeds"), list),
    "steps": int,
    "temperature": float,
    "parameters": int | None,
    "tuned_on": bool,
    "references": dict,
}
SEED_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("seed", "steps", "step", "machine"), int),
    **dict.fromkeys(("evaluated", "command"), str),
    **dict.fromkeys(("random", "crafter", "random_crafter"), dict | None),
    **dict.fromkeys(("score", "curve"), dict),
    "finished": bool,
    "returns": list,
    "hours": float | None,
    "checkpoint_sha256": str | None,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class SeedResult:
    """One run. `steps` are those it trained for, `step` is that of the agent that played.

    `returns` is empty if the score is that of an evaluation `during training`, which logs only its
    mean. `machine` is an index into the receipt's machines.
    """

    seed: int
    finished: bool
    steps: int
    step: int
    evaluated: str = AFTER
    checkpoint_sha256: str | None = None
    score: Score
    returns: tuple[float, ...] = ()
    random: Score | None = None
    crafter: CrafterScore | None = None
    random_crafter: CrafterScore | None = None
    hours: float | None = None
    command: str = ""
    machine: int = 0
    curve: "Curve"


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """Mean returns at agent steps, of evaluations or of the episodes of training."""

    of: str
    steps: tuple[int, ...] = ()
    returns: tuple[float, ...] = ()


LISTED = 4
"""Tables and legends list at most this many changes; the receipt has them all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """The runs of one agent on one game, which differ in their seeds only.

    `changes` are the settings that the command changed, and for a fork all that differ from the
    recipe; `settings` is a hash of all that matter.
    `references` are scores that the returns are compared with, and their source.
    """

    recipe: str
    size: str
    env: str
    protocol: str
    steps: int
    temperature: float
    checkpoint: str = LAST
    """`best` is that of the highest evaluation during training, which selects it."""
    settings: str
    changes: tuple[str, ...] = ()
    parameters: int | None = None
    tuned_on: bool = False
    references: Mapping[str, Any] = field(default_factory=dict)
    machines: tuple[Mapping[str, Any], ...] = ()
    seeds: tuple[SeedResult, ...] = ()

    @property
    def family(self) -> str:
        return self.env.partition(":")[0]

    @property
    def task(self) -> str:
        return self.env.partition(":")[2] or self.env

    @property
    def agent(self) -> str:
        """The recipe, what was changed in it, and whether a checkpoint was selected."""
        changes = self.changes if len(self.changes) <= LISTED else (self.change_count,)
        return ", ".join([self.recipe, *changes, *(["best checkpoint"] * self.selected)])

    @property
    def change_count(self) -> str:
        """Instead of a long list: how many changes, and the end of the receipt's file name."""
        return f"{len(self.changes)} settings changed ({self.change_hash})"

    @property
    def change_hash(self) -> str:
        return sha256("\n".join(self.changes).encode())[:6]

    @property
    def selected(self) -> bool:
        return self.checkpoint == BEST

    @property
    def finished(self) -> bool:
        return all(seed.finished for seed in self.seeds)

    @property
    def scores(self) -> list[float]:
        return [seed.score.mean for seed in self.seeds]

    @property
    def score(self) -> Score:
        """Over seeds; the error of a single seed is that of its episodes."""
        if len(self.seeds) == 1:
            return self.seeds[0].score
        found = score_of(self.scores)
        return Score(found.mean, found.error, sum(seed.score.episodes for seed in self.seeds))

    @property
    def random(self) -> float | None:
        """The mean return of a random policy over all its episodes."""
        found = [seed.random for seed in self.seeds if seed.random is not None]
        episodes = sum(score.episodes for score in found)
        return sum(s.mean * s.episodes for s in found) / episodes if episodes else None

    @property
    def hours(self) -> float | None:
        """Of all seeds together; None unless all are known."""
        known = [seed.hours for seed in self.seeds if seed.hours is not None]
        return sum(known) if len(known) == len(self.seeds) else None

    @property
    def place(self) -> str:
        """The file below the folder of receipts."""
        steps = f"{self.steps // 1000}k" if self.steps % 1000 == 0 else str(self.steps)
        words = [self.recipe, self.task, f"{self.size}-{steps}"]
        if self.protocol not in USUAL_PROTOCOLS:
            words.append(self.protocol)
        if self.selected:
            words.append(self.checkpoint)
        if self.changes:
            words.append(self.change_hash)
        return f"{plain(self.family)}/{'--'.join(map(plain, words))}.json"


USUAL_PROTOCOLS = ("atari100k", "crafter-1m", "dmc-vision", "minatar", "toy", "gym", "gymnasium")
"""Protocols that need no mention in the name of a file."""


def plain(word: str) -> str:
    """A word as part of a file's name."""
    return re.sub(r"[^\w.=-]+", "-", word).strip("-.") or "unnamed"


def to_text(receipt: Receipt) -> str:
    document = {"format": FORMAT, **asdict(receipt)}
    return lines(rounded(document)) + "\n"


def rounded(value: Any) -> Any:
    """Floats with few digits, because people read receipts in a diff."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: rounded(item) for name, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value


def lines(value: Any, indent: str = "") -> str:
    """JSON with sorted keys, and lists of plain values on one line."""
    inner = indent + "  "
    if isinstance(value, Mapping) and value:
        items = [f"{inner}{json.dumps(k)}: {lines(value[k], inner)}" for k in sorted(value)]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        items = [f"{inner}{lines(item, inner)}" for item in value]
        return "[\n" + ",\n".join(items) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def read_receipt(path: Path) -> Receipt:
    """`DamagedFile` if the file is no receipt, or if its scores do not follow from its returns."""
    document = files.parse_json(files.read_bytes(path.parent, path.name, LONGEST), path)
    if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
        raise DamagedFile(path, f"it is no receipt of format {FORMAT}")
    try:
        receipt = parse(document)
        check(receipt)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFile(path, f"it is no receipt ({error!s:.120})") from None
    return receipt


def parse(document: Mapping[str, Any]) -> Receipt:
    check_kinds(document, KINDS)
    check_texts(document)
    seeds = tuple(parse_seed(seed) for seed in document["seeds"])
    series = {name: tuple(document[name]) for name in ("changes", "machines")}
    return Receipt(**{**document, **series, "seeds": seeds})


def parse_seed(document: Mapping[str, Any]) -> SeedResult:
    check_kinds(document, SEED_KINDS)
    curve = document["curve"]
    parts: dict[str, Any] = {
        "score": Score(**document["score"]),
        "random": Score(**document["random"]) if document["random"] else None,
        "returns": numbers(document["returns"]),
        "curve": Curve(
            of=curve["of"], steps=numbers(curve["steps"]), returns=numbers(curve["returns"])
        ),
    }
    for name in ("crafter", "random_crafter"):
        parts[name] = CrafterScore(**document[name]) if document[name] else None
    return SeedResult(**{**document, **parts})


def check_kinds(document: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    if document.keys() != kinds.keys():
        raise ValueError(f"entries {sorted(document.keys() ^ kinds.keys())} are missing or unknown")
    for name, kind in kinds.items():
        value = document[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{name} is {json.dumps(value)[:40]}")


def check_texts(value: Any) -> None:
    """Receipts come from strangers and are shown in Markdown: no markup, nothing invisible."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            check_texts(name)
            check_texts(item)
    elif isinstance(value, list):
        for item in value:
            check_texts(item)
    elif isinstance(value, str) and (not value.isprintable() or set(value) & set("<`")):
        raise ValueError(f"the text {json.dumps(value)[:40]} is not plain")


def check(receipt: Receipt) -> None:
    """`ValueError` for numbers that contradict each other."""
    if not receipt.seeds:
        raise ValueError("it has no seeds")
    if receipt.tuned_on != (receipt.env in TUNED_ON):
        raise ValueError(f"tuned_on is wrong for {receipt.env}")
    seeds = [seed.seed for seed in receipt.seeds]
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"a seed is there twice: {seeds}")
    for seed in receipt.seeds:
        check_seed(seed, receipt)


def check_seed(seed: SeedResult, receipt: Receipt) -> None:
    if seed.finished != (seed.steps >= receipt.steps):
        raise ValueError(f"seed {seed.seed} trained {seed.steps} of {receipt.steps} steps")
    if not seed.returns and seed.evaluated != DURING:
        raise ValueError(f"seed {seed.seed} has no returns")
    if seed.returns and not same(seed.score, score_of(seed.returns)):
        raise ValueError(f"the score of seed {seed.seed} is not that of its returns")
    if not 0 <= seed.machine < len(receipt.machines):
        raise ValueError(f"seed {seed.seed} names machine {seed.machine}, which is not there")
    if len(seed.curve.steps) != len(seed.curve.returns):
        raise ValueError(f"the curve of seed {seed.seed} has steps without a return")


def same(one: Score, other: Score) -> bool:
    """Equal up to the rounding of a receipt."""
    pairs = [(one.mean, other.mean), (one.error or 0.0, other.error or 0.0)]
    scale = max(abs(other.mean), 1.0) * 10.0 ** (1 - DIGITS)
    return one.episodes == other.episodes and all(
        math.isclose(a, b, abs_tol=scale) for a, b in pairs
    )


def read_receipts(folder: Path) -> list[Receipt]:
    """All receipts below a folder, in the order of their places."""
    paths = sorted(path for path in folder.glob("*/*.json") if path.parent.name != BENCH)
    return [read_at_place(folder, path) for path in paths]


def read_at_place(folder: Path, path: Path) -> Receipt:
    receipt = read_receipt(path)
    if path != folder / receipt.place:
        raise DamagedFile(path, f"its content belongs to {receipt.place}")
    return receipt
