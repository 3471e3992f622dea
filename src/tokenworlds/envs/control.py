"""The DeepMind Control Suite (Tassa et al., 2018) from pixels, drawn by MuJoCo without a screen.

Nothing of it is imported before an environment is made: MuJoCo settles on a renderer while it is.
"""

import atexit
import contextlib
import logging
import re
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenworlds.core.errors import unknown
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.game import Game
from tokenworlds.envs.rendering import choose_renderer, naming_the_renderer, where_it_draws

SUITE: Mapping[str, tuple[str, ...]] = {
    "acrobot": ("swingup", "swingup_sparse"),
    "ball_in_cup": ("catch",),
    "cartpole": (
        *("balance", "balance_sparse", "swingup", "swingup_sparse"),
        *("two_poles", "three_poles"),
    ),
    "cheetah": ("run",),
    "dog": ("stand", "walk", "trot", "run", "fetch"),
    "finger": ("spin", "turn_easy", "turn_hard"),
    "fish": ("upright", "swim"),
    "hopper": ("stand", "hop"),
    "humanoid": ("stand", "walk", "run", "run_pure_state"),
    "humanoid_CMU": ("stand", "walk", "run"),
    "lqr": ("lqr_2_1", "lqr_6_2"),
    "manipulator": ("bring_ball", "bring_peg", "insert_ball", "insert_peg"),
    "pendulum": ("swingup",),
    "point_mass": ("easy", "hard"),
    "quadruped": ("walk", "run", "escape", "fetch"),
    "reacher": ("easy", "hard"),
    "stacker": ("stack_2", "stack_4"),
    "swimmer": ("swimmer6", "swimmer15"),
    "walker": ("stand", "walk", "run"),
}
"""All domains with their tasks, written down because importing them takes a second."""
TASKS = (
    "acrobot-swingup",
    "ball_in_cup-catch",
    "cartpole-balance",
    "cartpole-balance_sparse",
    "cartpole-swingup",
    "cartpole-swingup_sparse",
    "cheetah-run",
    "finger-spin",
    "finger-turn_easy",
    "finger-turn_hard",
    "hopper-hop",
    "hopper-stand",
    "pendulum-swingup",
    "quadruped-run",
    "quadruped-walk",
    "reacher-easy",
    "reacher-hard",
    "walker-run",
    "walker-stand",
    "walker-walk",
)
"""The twenty tasks of GIT-STORM (Meo et al., 2024), table 6."""
CAMERAS = {"quadruped": 2}
UNBOUNDED = 1e10
"""How MuJoCo writes that an action has no bound."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlProtocol:
    """How a task is played; `steps` are control steps of the suite. `flat` draws in haste."""

    repeat: int = 2
    steps: int = 1000
    flat: bool = False

    def __str__(self) -> str:
        light = "no shadows, reflections or smooth edges" if self.flat else "drawn in full"
        return f"action repeated {self.repeat} times, {self.steps} control steps, {light}"


PROTOCOLS: Mapping[str, ControlProtocol] = {
    "dmc-vision": ControlProtocol(),
    "dmc-vision-flat": ControlProtocol(flat=True),
}


class Control(Game):
    """One task, seen by its first camera (a quadruped by its third); no game is over early."""

    def __init__(
        self, task: str, *, size: int = 64, protocol: ControlProtocol = PROTOCOLS["dmc-vision"]
    ) -> None:
        prepare()
        self._run = where_it_draws()
        self._stage: Stage = self._run(open_stage, canonical_task(task), size, protocol)
        # Also for environments that are never closed, and before dm_control frees at exit what
        # belongs to another thread than the one that exits.
        self._free = weakref.finalize(self, self._run, self._stage.free)
        atexit.register(self._free)
        super().__init__(
            frame_shape=FrameShape(size, size),
            action_space=ActionSpace(len(self._stage.low), discrete=False),
            limit=protocol.steps // protocol.repeat,
        )

    def begin(self, seed: int) -> NDArray[Any]:
        """Begin with the task's own generator starting anew from the seed."""
        frame: NDArray[np.uint8] = self._run(self._stage.begin, seed)
        return frame

    def advance(self, action: NDArray[Any]) -> EnvStep:
        """Repeat an action; rewards are summed."""
        step: EnvStep = self._run(self._stage.advance, action)
        return step

    def close(self) -> None:
        """Give back what was drawn with."""
        super().close()
        self._free()
        atexit.unregister(self._free)


class Stage:
    """A task of the suite and the camera that looks at it, to be used on one thread only."""

    def __init__(self, environment: Any, size: int, camera: int, protocol: ControlProtocol) -> None:
        from dm_control.mujoco import Camera

        self._environment = environment
        self._repeat = protocol.repeat
        self._flags = {"shadow": False, "reflection": False} if protocol.flat else None
        prepare_drawing(environment.physics.model.vis, size, protocol.flat)
        with naming_the_renderer():
            # Kept for all frames: a new one for each would take longer than a flat frame.
            self._camera = Camera(environment.physics, size, size, camera)
            self._see()
        self.low, self.high = action_bounds(environment.action_spec())

    def begin(self, seed: int) -> NDArray[np.uint8]:
        """The first frame of a game."""
        self._environment.task.random.seed([seed % 2**32, seed >> 32])
        self._environment.reset()
        return self._see()

    def advance(self, action: NDArray[Any]) -> EnvStep:
        """An end with discount 0 is a true one."""
        share = (np.clip(action, -1, 1).astype(np.float64) + 1) / 2
        own = self.low + share * (self.high - self.low)
        reward = 0.0
        for _ in range(self._repeat):
            step = self._environment.step(own)
            reward += float(step.reward)
            if step.last():
                break
        over, terminated = step.last(), step.last() and step.discount == 0
        return EnvStep(
            self._see(), reward, terminated, truncated=over and not terminated, over=over
        )

    def free(self) -> None:
        """Free what MuJoCo holds, the drawing context above all."""
        self._environment.physics.free()
        del self._camera, self._environment

    def _see(self) -> NDArray[np.uint8]:
        # A copy, because the camera draws the next frame over this one.
        picture: NDArray[np.uint8] = self._camera.render(render_flag_overrides=self._flags)
        return picture.copy()


def prepare() -> None:
    """Settle on a renderer, unless the package is missing: it loads nothing of itself here."""
    import dm_control  # noqa: F401

    choose_renderer()


def open_stage(task: str, size: int, protocol: ControlProtocol) -> Stage:
    """The stage of a task, made on the thread that is to use it."""
    domain, _, name = task.partition("-")
    with naming_the_renderer():
        from dm_control import suite
    # The seed is for what some domains draw while they are built. Steps are counted by the game:
    # lqr has no limit of its own.
    given = {"random": np.random.RandomState(0), "time_limit": float("inf")}
    with without_warnings():
        environment = suite.load(domain, name, task_kwargs=given)
    return Stage(environment, size, CAMERAS.get(domain, 0), protocol)


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """MuJoCo logs that cheetah's description is written in an old way."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(disabled)


def prepare_drawing(visual: Any, size: int, flat: bool) -> None:
    """Settings that are read when the drawing context is made; the buffer holds just a frame."""
    visual.global_.offwidth = visual.global_.offheight = size
    if flat:
        visual.quality.offsamples = visual.quality.shadowsize = 0


def action_bounds(spec: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What -1 and 1 stand for; where there are no bounds (lqr) they stand for themselves."""
    low, high = np.array(spec.minimum, np.float64), np.array(spec.maximum, np.float64)
    return np.where(low <= -UNBOUNDED, -1, low), np.where(high >= UNBOUNDED, 1, high)


def names() -> list[str]:
    """All tasks as they are stored: `domain-task`."""
    return [f"{domain}-{task}" for domain, tasks in SUITE.items() for task in tasks]


def canonical_task(task: str) -> str:
    """The name as it is stored, from any case and separators; `cup` is `ball_in_cup`."""
    spellings = {_plain(name): name for name in names()}
    spellings["cupcatch"] = "ball_in_cup-catch"
    if _plain(task) not in spellings:
        raise unknown("task of DeepMind Control", task, names())
    return spellings[_plain(task)]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
