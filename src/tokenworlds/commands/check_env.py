"""`tokenworlds check-env`."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from tokenworlds.commands.errors import check_output
from tokenworlds.commands.options import (
    NO_DEFAULT,
    EnvAssignments,
    Json,
    Protocol,
    Seed,
    whole_number,
)

if TYPE_CHECKING:
    from tokenworlds.envs.checking import EnvReport


@dataclass(frozen=True, kw_only=True)
class CheckEnv:
    """Play an environment at random, and report what an agent would meet there."""

    env: Annotated[str, Positional, arg(metavar="ENV")]
    """An environment from 'tokenworlds envs', or your own: my_env.py:make."""
    env_set: EnvAssignments = ()
    """Options of a Gymnasium environment, from 'tokenworlds envs', as in frame_skip=4."""
    protocol: Protocol = ""
    """Protocol of the environment, from 'tokenworlds envs'."""
    steps: Annotated[int, whole_number(1)] = 500
    """Random steps to play."""
    resolution: Annotated[int, whole_number(1)] = 64
    """Pixels of a side of a frame."""
    seed: Seed = 0
    """Seed of the games and actions."""
    out: Annotated[str, NO_DEFAULT, arg(metavar="FILE.png")] = ""
    """Write frames of the games side by side."""
    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        from tokenworlds.commands.choices import protocol_with
        from tokenworlds.envs.catalogue import EnvSpec
        from tokenworlds.envs.checking import check, strip

        path = check_output(Path(self.out), (".png",)) if self.out else None
        protocol = protocol_with(self.protocol, self.env_set)
        spec = EnvSpec(self.env, protocol, self.resolution)
        report, played = check(spec, steps=self.steps, seed=self.seed, command=self.command())
        if path is not None:
            from PIL import Image

            Image.fromarray(strip(played.frames)).save(path)
        shown = json.dumps(asdict(report), indent=2) if self.json else "\n".join(lines(report))
        print(shown if self.json or path is None else f"{shown}\nstrip        {path}")
        return 0

    def command(self) -> str:
        """The command that trains in this environment."""
        words = ["tokenworlds", "train", "--env", self.env]
        words += ["--protocol", self.protocol] if self.protocol else []
        options = [word for group in self.env_set for word in group]
        return shlex.join([*words, *(["--env-set", *options] if options else [])])


def lines(report: "EnvReport") -> Iterator[str]:
    yield f"environment  {report.env}, protocol {report.protocol}"
    yield f"observes     {report.observations}"
    yield f"frames       {' x '.join(map(str, report.frame))}"
    yield f"actions      {report.actions}"
    yield (
        f"rewards      {report.reward_low:g} to {report.reward_high:g}, "
        f"{report.reward_share:.1%} not zero"
    )
    yield f"games        {games(report)}"
    yield f"seed         {'fixes the game' if report.deterministic else 'does not fix the game'}"
    reset = f"reset in {1000 * report.reset_seconds:.1f} ms"
    yield f"speed        {report.steps_per_second:,.0f} steps/s, {reset}"
    if report.memory is not None:
        megabytes = f"{max(report.memory, 0):.0f} MB"
        yield f"memory       {megabytes} for the first environment, with what it imports"
    for note in report.notes:
        yield f"note         {note}"
    for finding in report.checker:
        yield f"gymnasium    {finding}"
    yield f"train        {report.command}"


def games(report: "EnvReport") -> str:
    if not report.games:
        return f"none ended in {report.steps:,} random steps"
    return (
        f"{report.games} in {report.steps:,} random steps: {report.terminated} terminated, "
        f"{report.truncated} truncated; mean length {report.mean_length:.1f}, mean return "
        f"{report.mean_return:.2f}"
    )
