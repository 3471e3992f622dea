"""Nonsense for everything that reads a user's words or a folder's documents.

A trial is `run.json 7 100`: a target, a seed of hypothesis, and how many inputs it makes. Each
input is valid or ends in a `UserError`; nothing is imported, opened or started that the user did
not name. A failure shows the smallest input that hypothesis found.
"""

import json
import re
import resource
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import hypothesis
from audit import Audit
from damaged_runs import CHECKPOINTS, DamagedRuns, checkpoint
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from runs_under_test import CASES, RUN
from trials import Ended, Outcome, forked, snapshot

from tokenworlds.agent import Agent
from tokenworlds.commands.choices import choose_recipe
from tokenworlds.core.description import to_json
from tokenworlds.core.errors import UserError
from tokenworlds.core.files import sha256
from tokenworlds.envs.catalogue import EnvSpec, families
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.own_code import Trust
from tokenworlds.training.loop import Loop

Use = Callable[[], object]
"""Reads an input that was drawn before."""
Check = Callable[[st.DataObject], Use]
MEMORY = 8 * 2**30
CUT = ("replay/", "metrics.jsonl")
"""What a resume may cut."""
MODULES = ["gym:antigravity:X-v0", "gym:evil:Maze-v0", "gym:os:X-v0", "gym:../x:Y-v0"]
MODULES += ["evil.py:make", "os.path:join", "python:os:abort", "../evil.py:x", "a\0b.py:x"]
PROTOCOLS = ["", "gymnasium", "gym", ",render=true", "gymnasium,frame_skip=99999999999", ",,=,"]
NAMES = ["type", "os:system", "antigravity:x", "evil.py", "tokenworlds.core.files:DamagedFile"]
NAMES += ["tokenworlds.nets.optimisers:Optimiser.Config", "tokenworlds.__main__:x", "../x", "a\0b"]
NUMBERS = [0, -1, 1, 2**31, 2**63, 10**400, 1e308, -0.5]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70),
    st.sampled_from(NUMBERS),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(NAMES),
    st.text(max_size=8),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.just("type"), st.text(max_size=6)), inner, max_size=3),
    ),
    max_leaves=6,
)


class Fuzzing:
    """Trials of every target in turn, with a new seed each time."""

    name = "fuzz"
    enough = 10_000

    def __init__(self, workspace: Path, seed: int = 0) -> None:
        self.damaged = DamagedRuns(workspace, seed)
        self.workspace = workspace
        self.first = seed

    def trials(self) -> Iterator[str]:
        for round in range(1000):
            for target, (_, count) in TARGETS.items():
                yield f"{target} {self.first + round} {count}"

    def run(self, trial: str) -> Outcome:
        target, seed, count = trial.split()
        folder = self.workspace / "fuzz"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.damaged.originals / "stopped" / RUN, folder / RUN)
        end = forked(lambda: fuzz(target, folder / RUN, int(seed), int(count)), patience=600.0)
        if end.code:
            return Outcome(target, "failure", falsified(end))
        inputs, valid = map(int, end.out.split()[-2:])
        return Outcome(target, "same", count=valid, sentences=inputs - valid)


def falsified(end: Ended) -> str:
    """The last exception and the inputs that hypothesis drew for it."""
    lines = [line.strip(" |") for line in end.err.splitlines()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
    places = [line for line in lines if "src/tokenworlds/" in line]
    drawn = [line.partition(": ")[2] for line in lines if line.startswith("Draw ")]
    return f"{[*errors, end.summary][0]} at {places[-1:]} for {', '.join(drawn)}"[:700]


def fuzz(target: str, run: Path, seed: int, count: int) -> int:
    """Try inputs in this process; prints how many there were, and how many were valid."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    families()
    resume(run)
    audit = Audit(run.parent)
    check = TARGETS[target][0](run)
    ends: list[bool] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        print_blob=False,
    )
    @hypothesis.given(st.data())
    def example(data: st.DataObject) -> None:
        use = check(data)
        with audit.watching():
            try:
                use()
                ends.append(True)
            except UserError:
                ends.append(False)

    example()
    print(len(ends), sum(ends))
    return 0


def resume(run: Path) -> None:
    """What `tokenworlds resume` does before the first step."""
    folder = RunFolder.open(run)
    loop = Loop(folder.spec(Trust()), folder, Silent())
    try:
        loop.resume()
    finally:
        loop.close()


class Silent:
    def event(self, event: Mapping[str, Any]) -> None: ...

    def progress(
        self, steps: int, rates: Mapping[str, float], seconds_left: float | None, share: float
    ) -> None: ...

    def note(self, text: str) -> None: ...


def mutated(data: st.DataObject, value: Any) -> Any:
    """A document with one part replaced or deleted."""
    if not isinstance(value, dict | list) or not value or not data.draw(st.integers(0, 11)):
        return data.draw(VALUES)
    copy = value.copy()
    key = data.draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value))))
    if data.draw(st.integers(0, 11)):
        copy[key] = mutated(data, value[key])
    else:
        del copy[key]
    return copy


def mutated_bytes(data: st.DataObject, content: bytes) -> bytes:
    begin = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(begin, min(len(content), begin + 20)))
    return content[:begin] + data.draw(st.binary(max_size=12)) + content[end:]


def overrides(run: Path) -> Check:
    """Assignments on the command line."""
    recipes = {case.recipe: list(paths_of(case.recipe)) for case in CASES}

    def check(data: st.DataObject) -> Use:
        name = data.draw(st.sampled_from(list(recipes)))
        path = data.draw(st.sampled_from(recipes[name]))
        path += data.draw(st.sampled_from(["", "", "", "", ".x", ".", ".type", ".0"]))
        path = data.draw(st.one_of(st.just(path), st.just(path), st.text(max_size=12)))
        value = data.draw(st.one_of(VALUES.map(json.dumps), st.text(max_size=12), st.just("vq")))
        return lambda: choose_recipe(name, "nano", "catch", [[f"{path}={value}"]])

    return check


def paths_of(recipe: str) -> Iterator[str]:
    found = [("", to_json(load(recipe, "nano").recipe))]
    while found:
        place, value = found.pop()
        if place:
            yield place
        if isinstance(value, dict):
            found += [(f"{place}.{key}".lstrip("."), value[key]) for key in value if key != "type"]


def env_names(run: Path) -> Check:
    """Names of environments, those included that name a module."""
    known = [name for family in families().values() for name in (*family.examples, family.name)]
    made: set[str] = set()

    def check(data: st.DataObject) -> Use:
        name = data.draw(st.sampled_from(known))
        cut = data.draw(st.integers(0, len(name)))
        name = (
            name[:cut] + data.draw(st.text(max_size=8)) + name[cut + data.draw(st.integers(0, 3)) :]
        )
        name = data.draw(st.one_of(st.just(name), st.sampled_from(MODULES), st.text(max_size=20)))
        protocol = data.draw(st.one_of(st.sampled_from(PROTOCOLS), st.text(max_size=20)))

        def use() -> None:
            spec = EnvSpec(name, protocol)
            Trust().check_env(run, spec.name)
            if spec.name not in made and spec.name.startswith(("toy", "gym")):
                made.add(spec.name)
                spec.make().close()

        return use

    return check


def run_json(run: Path) -> Check:
    """run.json alone, as far as its specification is read."""
    content = (run / "run.json").read_bytes()
    document = json.loads(content)

    def check(data: st.DataObject) -> Use:
        (run / "run.json").write_bytes(
            mutated_bytes(data, content)
            if data.draw(st.integers(0, 3)) == 0
            else json.dumps(mutated(data, document)).encode()
        )

        def use() -> None:
            spec = RunFolder.open(run).spec(Trust())
            Trust().check_env(run, spec.env.name)

        return use

    return check


def copied_run_json(run: Path) -> Check:
    """run.json with equal copies in the checkpoints, so that nothing but its content is wrong."""
    document = json.loads((run / "run.json").read_bytes())

    def check(data: st.DataObject) -> Use:
        described = mutated(data, document["run"])
        content = json.dumps({**document, "run": described}).encode()
        (run / "run.json").write_bytes(content)
        for alias in CHECKPOINTS:
            put(checkpoint(run, alias), "run.json", content)
        return lambda: Agent.load(run)

    return check


def manifest(run: Path) -> Check:
    path = checkpoint(run, "newest") / "manifest.json"
    document = json.loads(path.read_bytes())

    def check(data: st.DataObject) -> Use:
        path.write_bytes(json.dumps(mutated(data, document)).encode())
        return lambda: Agent.load(run)

    return check


def state_json(run: Path) -> Check:
    """state.json with a manifest that fits, read by a resume."""
    folder = checkpoint(run, "newest")
    document = json.loads((folder / "state.json").read_bytes())
    kept = {name: content for name, content in snapshot(run).items() if name.startswith(CUT)}

    def check(data: st.DataObject) -> Use:
        put(folder, "state.json", json.dumps(mutated(data, document)).encode())
        for name, content in kept.items():
            (run / name).write_bytes(content)
        return lambda: resume(run)

    return check


def put(folder: Path, name: str, content: bytes) -> None:
    """Replace a file of a checkpoint, its size and hash included."""
    (folder / name).write_bytes(content)
    listed = json.loads((folder / "manifest.json").read_bytes())
    listed[name] = [len(content), sha256(content)]
    (folder / "manifest.json").write_bytes(json.dumps(listed).encode())


TARGETS: dict[str, tuple[Callable[[Path], Check], int]] = {
    "overrides": (overrides, 400),
    "env_names": (env_names, 400),
    "run.json": (run_json, 400),
    "copied_run.json": (copied_run_json, 100),
    "manifest.json": (manifest, 150),
    "state.json": (state_json, 50),
}
"""By name: the target, and how many inputs a trial tries."""
