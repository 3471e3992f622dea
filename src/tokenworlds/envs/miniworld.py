"""MiniWorld (Chevalier-Boisvert et al., 2023): rooms and mazes in 3D, seen by the agent."""

import contextlib
import io
from typing import Any

import gymnasium

from tokenworlds.envs.game import Family, match_name
from tokenworlds.envs.gym import Gym

TASKS = (
    *("CollectHealth", "FourRooms", "Hallway", "Maze", "MazeS2", "MazeS3", "MazeS3Fast"),
    *("OneRoom", "OneRoomS6", "OneRoomS6Fast", "PickupObjects", "PutNext", "Sidewalk"),
    *("TMaze", "TMazeLeft", "TMazeRight", "ThreeRooms", "WallGap"),
    *("YMaze", "YMazeLeft", "YMazeRight"),
)
"""Without Sign, whose goal is no part of the image, and RoomObjects, which has no reward."""


def build(game: str, size: int, protocol: str, evaluation: bool) -> Gym:
    import pyglet

    # Must be set before MiniWorld imports a window: EGL draws without a screen.
    pyglet.options["headless"] = True
    # MiniWorld prints how many samples per pixel the renderer has.
    with contextlib.redirect_stdout(io.StringIO()):
        import miniworld  # noqa: F401

        made: gymnasium.Env[Any, Any] = gymnasium.make(
            f"MiniWorld-{game}-v0", disable_env_checker=True
        )
        return Gym(made, name=f"miniworld:{game}", size=size)


def canonical_task(task: str) -> str:
    return match_name("MiniWorld task", task, TASKS)


FAMILY = Family(
    name="miniworld",
    about="rooms and mazes in 3D, seen by the agent",
    examples=("miniworld:Hallway", "miniworld:FourRooms", "miniworld:CollectHealth"),
    protocols={"miniworld": "80 x 60 pixels, no domain randomisation; the step limit of the task"},
    canonical=canonical_task,
    build=build,
    extra="miniworld",
    package="miniworld",
)
