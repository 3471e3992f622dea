"""Option types that several commands share."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

from tyro.conf import FlagCreatePairsOff, Positional, UseAppendAction, arg
from tyro.constructors import PrimitiveConstructorSpec


def whole_number(least: int) -> PrimitiveConstructorSpec[int | None]:
    """An integer of at least `least`, or None."""

    def read(words: list[str]) -> int:
        try:
            number = int(words[0])
        except ValueError:
            number = least - 1
        if number < least:
            raise ValueError(f"takes a whole number of {least} or more, not {words[0]!r}")
        return number

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="N",
        instance_from_str=read,
        is_instance=lambda value: value is None or isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    )


def number_from_zero() -> PrimitiveConstructorSpec[float | None]:
    """A finite number of at least 0, or None."""

    def read(words: list[str]) -> float:
        try:
            number = float(words[0])
        except ValueError:
            number = math.nan
        if not 0.0 <= number < math.inf:
            raise ValueError(f"takes a number of 0 or more, not {words[0]!r}")
        return number

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="T",
        instance_from_str=read,
        is_instance=lambda value: value is None or isinstance(value, float),
        str_from_instance=lambda value: [str(value)],
    )


def finite_number() -> PrimitiveConstructorSpec[float | None]:
    """A finite number, or None."""

    def read(words: list[str]) -> float:
        try:
            number = float(words[0])
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"takes a number, not {words[0]!r}")
        return number

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="X",
        instance_from_str=read,
        is_instance=lambda value: value is None or isinstance(value, float),
        str_from_instance=lambda value: [str(value)],
    )


def default_text(default: str) -> Any:
    """What help shows for a default that depends on other choices."""
    return arg(help_behavior_hint=f"(default: {default})")


NO_DEFAULT = arg(help_behavior_hint="")
Run = Annotated[str, Positional, arg(metavar="RUN")]
Recipe = Annotated[str, Positional, arg(metavar="RECIPE")]
Env = Annotated[str, arg(metavar="ENV")]
BenchmarkEnv = Annotated[Env, default_text("atari:Pong if ale-py is installed, else catch")]
Size = Annotated[str, arg(metavar="{nano,tiny,small,paper,...}")]
Seed = Annotated[int, whole_number(0)]
Count = Annotated[int | None, whole_number(1)]
Protocol = Annotated[str, default_text("the environment's first"), arg(metavar="NAME")]
OptionalSeed = Annotated[int | None, whole_number(0)]
Temperature = Annotated[float | None, number_from_zero()]
Number = Annotated[float | None, finite_number()]
Switch = Annotated[bool, FlagCreatePairsOff, NO_DEFAULT]
Json = Switch
Precision = Annotated[str, arg(metavar="{auto,float32,bfloat16}")]
Assignments = Annotated[
    tuple[tuple[str, ...], ...],
    UseAppendAction,
    NO_DEFAULT,
    arg(name="set", metavar="PATH=VALUE ..."),
]
EnvAssignments = Annotated[
    tuple[tuple[str, ...], ...],
    UseAppendAction,
    NO_DEFAULT,
    arg(name="env-set", metavar="NAME=VALUE ..."),
]


@dataclass(frozen=True, kw_only=True)
class TrackerOptions:
    """Where metrics go besides metrics.jsonl and TensorBoard."""

    csv: Switch = False
    """Write metrics.csv to the run folder."""
    wandb: Switch = False
    """Log to Weights & Biases; WANDB_MODE=offline and its other variables count."""
    mlflow: Switch = False
    """Log to MLflow; MLFLOW_TRACKING_URI and its other variables count."""

    @property
    def trackers(self) -> tuple[str, ...]:
        return tuple(name for name in ("csv", "wandb", "mlflow") if getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """A run, and what it may import: a run folder is data, so it names no code to execute."""

    run: Run
    """Folder of the run."""
    recipe: Annotated[tuple[str, ...], UseAppendAction, NO_DEFAULT, arg(metavar="FILE.py")] = ()
    """Your own file with classes of the run, as my_agents.py:mine or my_agents.py; may be
    repeated."""
    env: Annotated[str, NO_DEFAULT, arg(metavar="ENV")] = ""
    """The run's environment, if its name imports a module: gym:my_games:Maze-v0, my_env.py:make."""
    trust: Switch = False
    """Execute the files and import the modules that the run names."""


@dataclass(frozen=True, kw_only=True)
class AgentOptions(RunOptions):
    """A run, or an agent without its run."""

    run: Run
    """Folder of a run or of an agent that Agent.save wrote, or the name of a pretrained agent."""
