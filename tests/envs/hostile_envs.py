"""Environments that break the rules of Gymnasium, as ids: `gym:hostile_envs:NanReward-v0`.

Each is well-behaved until its third step.
"""

import errno
import os
import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

FAILING_STEP = 3
FRAME = np.zeros((8, 8, 3), np.uint8)


class Polite(gymnasium.Env[Any, Any]):
    """A game of five steps whose frames count them."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = spaces.Discrete(1)
    action_space: spaces.Space[Any] = spaces.Discrete(2)
    steps = 0

    def __init__(self, **given: Any) -> None:
        self.render_mode = given["render_mode"]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.steps = 0
        return 0, {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps == FAILING_STEP:
            return self.fail()
        return 0, 1.0, self.steps == 5, False, {}

    def fail(self) -> Any:
        return 0, 1.0, False, False, {}

    def render(self) -> Any:
        return self.spoil() if self.steps == FAILING_STEP else FRAME + np.uint8(self.steps)

    def spoil(self) -> Any:
        return FRAME + np.uint8(self.steps)


class RaisingReset(Polite):
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        raise KeyError("level")


class NoActions(Polite):
    action_space = spaces.Box(0.0, 1.0, (0,))


class RaisingInit(Polite):
    def __init__(self, **given: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def raising(error: BaseException) -> type[Polite]:
    class Raising(Polite):
        def fail(self) -> Any:
            raise error

    return Raising


def returning(*values: Any) -> type[Polite]:
    class Returning(Polite):
        def fail(self) -> Any:
            return values

    return Returning


def rendering(frame: Any) -> type[Polite]:
    class Rendering(Polite):
        def spoil(self) -> Any:
            return frame

    return Rendering


class Exiting(Polite):
    def fail(self) -> Any:
        sys.exit("bye")


class Recursive(Polite):
    def fail(self) -> Any:
        return self.fail()


class Dying(Polite):
    def fail(self) -> Any:
        os._exit(7)


class Hanging(Polite):
    def fail(self) -> Any:
        time.sleep(600)


class Closing(Polite):
    def close(self) -> None:
        raise RuntimeError("the window is gone")


HOSTILE: dict[str, type[Polite]] = {
    "Polite": Polite,
    "RaisingReset": RaisingReset,
    "RaisingInit": RaisingInit,
    "NoActions": NoActions,
    "Raising": raising(ValueError("bad\nlevel")),
    "FullDisk": raising(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))),
    "NoMemory": raising(MemoryError()),
    "BrokenPipe": raising(BrokenPipeError("my socket")),
    "Exiting": Exiting,
    "Recursive": Recursive,
    "Dying": Dying,
    "Hanging": Hanging,
    "Closing": Closing,
    "NanReward": returning(0, float("nan"), False, False, {}),
    "InfiniteReward": returning(0, -np.inf, False, False, {}),
    "HugeReward": returning(0, 1e300, False, False, {}),
    "TextReward": returning(0, "1.0", False, False, {}),
    "NoReward": returning(0, None, False, False, {}),
    "TwoRewards": returning(0, np.ones(2), False, False, {}),
    "TextFlag": returning(0, 1.0, "False", False, {}),
    "NoFlag": returning(0, 1.0, False, None, {}),
    "ListInfo": returning(0, 1.0, False, False, [1]),
    "ThreeValues": returning(0, 1.0, False),
    "FourValues": returning(0, 1.0, False, {}),
    "SixValues": returning(0, 1.0, False, False, {}, 0),
    "UnitFrame": rendering(np.full((8, 8, 3), 0.5)),
    "FloatFrame": rendering(np.full((8, 8, 3), 200.0, np.float32)),
    "WideFrame": rendering(np.full((8, 8, 3), 7, np.int64)),
    "ChannelsFirst": rendering(np.zeros((3, 8, 8), np.uint8)),
    "NoChannels": rendering(np.zeros((8, 8), np.uint8)),
    "EmptyFrame": rendering(np.zeros((0, 8, 3), np.uint8)),
    "TextFrame": rendering("a frame"),
    "NoFrame": rendering(None),
    "ObjectFrame": rendering(np.full((8, 8, 3), None)),
    "Lenient": returning(0, np.array([2.0]), 0, np.array(False), {}),
}
for name, kind in HOSTILE.items():
    gymnasium.register(f"{name}-v0", kind)
gymnasium.register("Timed-v0", HOSTILE["FourValues"], max_episode_steps=9)
