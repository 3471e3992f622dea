"""Random steps, held in memory, to compare a store with."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.replay.store import ReplayStore

SHAPE = FrameShape(4, 6, 3)
DISCRETE = ActionSpace(5)
CONTINUOUS = ActionSpace(2, discrete=False)


@dataclass(frozen=True)
class Played:
    frame: NDArray[np.uint8]
    fields: dict[str, NDArray[Any]]


def random_play(count: int, steps: int, actions: ActionSpace = DISCRETE, seed: int = 0) -> Played:
    rng = np.random.default_rng(seed)
    shape = (count, steps)
    action = (
        rng.integers(actions.size, size=shape)
        if actions.discrete
        else rng.uniform(-1, 1, (*shape, actions.size)).astype(np.float32)
    )
    fields = {
        "first": rng.random(shape) < 0.2,
        "action": action,
        "reward": rng.normal(size=shape).astype(np.float32),
        "terminated": rng.random(shape) < 0.2,
        "truncated": rng.random(shape) < 0.2,
    }
    frame = rng.integers(256, size=(*shape, SHAPE.height, SHAPE.width, SHAPE.channels))
    return Played(frame.astype(np.uint8), fields)


def open_store(
    folder: Path, *, num_envs: int = 2, chunk: int = 8, actions: ActionSpace = DISCRETE
) -> ReplayStore:
    return ReplayStore(
        folder, frame_shape=SHAPE, action_space=actions, num_envs=num_envs, chunk=chunk
    )


def record(store: ReplayStore, played: Played, begin: int, end: int) -> None:
    for time in range(begin, end):
        now = {name: values[:, time] for name, values in played.fields.items()}
        store.append(
            played.frame[:, time],
            now["first"],
            now["action"],
            now["reward"],
            now["terminated"],
            now["truncated"],
        )


def assert_holds(store: ReplayStore, played: Played, length: int) -> None:
    assert store.length == length
    for name, values in played.fields.items():
        np.testing.assert_array_equal(store.records[name], values[:, :length])
    for env in range(store.num_envs):
        out = np.zeros_like(played.frame[env, :length])
        store.read_frames(env, 0, out)
        np.testing.assert_array_equal(out, played.frame[env, :length])


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
