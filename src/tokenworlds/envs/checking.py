"""Play an environment at random and report what an agent would meet there."""

import hashlib
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.utils import env_checker
from jaxtyping import UInt8
from numpy.typing import NDArray

from tokenworlds.core.protocols import Env
from tokenworlds.core.seeding import derive, numpy_generator
from tokenworlds.core.types import EnvStep
from tokenworlds.envs.boundary import FAULTS, place, reason
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.envs.gym import Gym
from tokenworlds.envs.vector import CheckedEnv

SHOWN = 10
COMPARED = 200
"""Steps of the games that are compared."""
MEGABYTE = 2**20
SLOW_GROWTH = 0.02
"""Megabytes of growth per step from which memory is reported."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvReport:
    """What was seen in `steps` random steps; `notes` are sentences about what may go wrong.

    `checker` are the findings of Gymnasium's `env_checker`. `memory` is in megabytes.
    """

    env: str
    protocol: str
    observations: str
    actions: str
    frame: tuple[int, int, int]
    steps: int
    games: int
    terminated: int
    truncated: int
    mean_length: float | None
    mean_return: float | None
    reward_low: float
    reward_high: float
    reward_share: float
    deterministic: bool
    steps_per_second: float
    reset_seconds: float
    memory: float | None
    memory_growth: float | None
    notes: tuple[str, ...]
    checker: tuple[str, ...]
    command: str


@dataclass(slots=True)
class Played:
    """Games played at random, and some of their frames."""

    rewards: NDArray[np.float64]
    returns: list[float]
    lengths: list[int]
    terminated: int
    truncated: int
    frames: list[NDArray[np.uint8]]
    varied: bool
    step_seconds: float
    reset_seconds: float
    growth: float | None


def check(spec: EnvSpec, *, steps: int, seed: int, command: str) -> tuple[EnvReport, Played]:
    """Raises `EnvironmentFailed` at the first invalid value."""
    before = memory()
    env = spec.make()
    try:
        played = play(CheckedEnv(spec.name, env), steps, seed)
        held = memory()
        differs = difference(spec, env, seed)
        report = EnvReport(
            env=spec.name,
            protocol=spec.protocol,
            observations=observations(env),
            actions=actions(env),
            frame=(env.frame_shape.height, env.frame_shape.width, env.frame_shape.channels),
            steps=steps,
            games=len(played.lengths),
            terminated=played.terminated,
            truncated=played.truncated,
            mean_length=mean(played.lengths),
            mean_return=mean(played.returns),
            reward_low=float(played.rewards.min()),
            reward_high=float(played.rewards.max()),
            reward_share=float((played.rewards != 0).mean()),
            deterministic=differs is None,
            steps_per_second=steps / played.step_seconds,
            reset_seconds=played.reset_seconds,
            memory=None if before is None or held is None else held - before,
            memory_growth=played.growth,
            notes=tuple(remarks(played, differs, steps)),
            checker=tuple(checker_findings(spec)) if isinstance(env, Gym) else (),
            command=command,
        )
    finally:
        env.close()
    return report, played


def play(game: CheckedEnv, steps: int, seed: int) -> Played:
    """Random actions for a number of steps, in as many games as that takes."""
    generator = numpy_generator(seed, "check")
    rewards = np.zeros(steps)
    done = Played(rewards, [], [], 0, 0, [], False, 0.0, 0.0, None)
    shown = set(np.linspace(0, steps - 1, min(SHOWN, steps)).astype(int).tolist())
    begun, half = timed_begin(game, seed, 0, done), None
    first = game.frame
    for count in range(steps):
        half = memory() if count == steps // 2 else half
        if count in shown:
            done.frames.append(game.frame)
        start = time.perf_counter()
        step = game.advance(random_action(game.env, generator))
        done.step_seconds += time.perf_counter() - start
        rewards[count] = step.reward
        done.varied = done.varied or not np.array_equal(first, game.frame)
        if step.over:
            finish(game, step, done)
            begun += timed_begin(game, seed, len(done.lengths), done)
    end = memory()
    done.growth = None if half is None or end is None else end - half
    done.reset_seconds /= begun
    return done


def timed_begin(game: CheckedEnv, seed: int, number: int, done: Played) -> int:
    start = time.perf_counter()
    game.begin(derive(seed, "env", 0, number), number)
    done.reset_seconds += time.perf_counter() - start
    return 1


def finish(game: CheckedEnv, step: EnvStep, done: Played) -> None:
    done.returns.append(game.score)
    done.lengths.append(game.length)
    done.terminated += bool(step.terminated)
    done.truncated += bool(step.truncated)


def random_action(env: Env, generator: np.random.Generator) -> NDArray[Any]:
    if env.action_space.discrete:
        return np.asarray(generator.integers(env.action_space.size))
    return generator.uniform(-1, 1, env.action_space.size).astype(np.float32)


def difference(spec: EnvSpec, used: Env, seed: int) -> str | None:
    """How the game of a seed differs from itself, if it does.

    A run that is resumed replays the actions of its running games, in a new environment.
    """
    other = spec.make()
    try:
        one, two = (digests(spec.name, env, seed) for env in (used, other))
    finally:
        other.close()
    pairs = zip(one, two, strict=False)
    at = next((index for index, (a, b) in enumerate(pairs) if a != b), None)
    if at is None and len(one) == len(two):
        return None
    return "its first frame" if at == 0 else f"step {at or min(len(one), len(two))}"


def digests(name: str, env: Env, seed: int) -> list[str]:
    """A hash of all that an environment returns, step by step, in one game."""
    generator = numpy_generator(seed, "compare")
    game = CheckedEnv(name, env)
    game.begin(derive(seed, "env", 0, 0), 0)
    found = [digest(game.frame, ())]
    for _ in range(COMPARED):
        step = game.advance(random_action(env, generator))
        found.append(digest(game.frame, (step.reward, step.terminated, step.truncated)))
        if step.over:
            break
    return found


def digest(frame: NDArray[np.uint8], values: tuple[Any, ...]) -> str:
    text = repr([float(value) for value in values]).encode()
    return hashlib.sha256(np.ascontiguousarray(frame).tobytes() + text).hexdigest()


def remarks(played: Played, differs: str | None, steps: int) -> Iterator[str]:
    if differs is not None:
        yield (
            f"the game of a seed differs from itself at {differs}: take all randomness from "
            f"reset(seed=...), or a resumed run begins new games"
        )
    if not played.varied:
        yield "every frame is the same: the agent sees nothing of the game"
    if not played.rewards.any():
        yield f"no reward in {steps:,} random steps: an agent may not find one by chance"
    if not played.lengths:
        yield f"no game ended in {steps:,} steps: play more of them, or set a time_limit"
    if played.growth is not None and played.growth > max(8.0, SLOW_GROWTH * steps):
        yield f"memory grew by {played.growth:.0f} MB in the last {steps // 2:,} steps"


def checker_findings(spec: EnvSpec) -> list[str]:
    """What Gymnasium's own checker says of a new environment, without its wrappers."""
    made = spec.make()
    assert isinstance(made, Gym)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            env_checker.check_env(
                made.environment.unwrapped, skip_render_check=True, skip_close_check=True
            )
            failed = []
        except FAULTS as error:
            failed = [reason(error).removesuffix(place(error))]
        finally:
            made.close()
    texts = [plain(str(warning.message)) for warning in caught]
    return list(dict.fromkeys([*(plain(text) for text in failed), *texts]))


def plain(text: str) -> str:
    """A warning of Gymnasium without colours and prefix."""
    return " ".join(re.sub(r"\x1b\[\d+m", "", text).removeprefix("WARN: ").split())


def observations(env: Env) -> str:
    text = env.describe_observations() if isinstance(env, Gym) else "frames of the family"
    return " ".join(text.split())


def actions(env: Env) -> str:
    space = env.action_space
    text = f"{space.size} choices" if space.discrete else f"a vector of {space.size} in [-1, 1]"
    return f"{env.environment.action_space} as {text}" if isinstance(env, Gym) else text


def mean(values: list[int] | list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def memory() -> float | None:
    """Megabytes of this process in memory, where /proc says so."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    import resource

    return pages * resource.getpagesize() / MEGABYTE


def strip(
    frames: list[NDArray[np.uint8]], scale: int = 2, gap: int = 2
) -> UInt8[np.ndarray, "_ _ 3"]:
    """Frames side by side, enlarged, with grey between them."""
    large = [frame.repeat(scale, axis=0).repeat(scale, axis=1) for frame in frames]
    colours = [np.broadcast_to(frame, (*frame.shape[:2], 3)) for frame in large]
    border = np.full((colours[0].shape[0], gap, 3), 128, np.uint8)
    parts = [part for frame in colours for part in (border, frame)]
    return np.concatenate(parts[1:], axis=1)
