"""The DeepMind Control Suite (Tassa et al., 2018) from pixels, rendered by MuJoCo.

The suite is imported only when an environment is made, because MuJoCo selects its renderer on
import.
"""

import atexit
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.game import Family, Game, match_name, without_warnings
from tokenworlds.envs.rendering import choose_renderer, explain_renderer_errors, render_caller

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
"""All domains with their tasks, listed here because importing the suite takes a second."""
CAMERAS = {"quadruped": 2}
UNBOUNDED = 1e10
"""MuJoCo's bound for actions without bounds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlProtocol:
    """Rules of play; `steps` counts control steps of the suite, `flat` renders faster."""

    repeat: int = 2
    steps: int = 1000
    flat: bool = False

    def __str__(self) -> str:
        quality = "no shadows, reflections or anti-aliasing" if self.flat else "full rendering"
        return f"action repeated {self.repeat} times, {self.steps} control steps, {quality}"


PROTOCOLS: Mapping[str, ControlProtocol] = {
    "dmc-vision": ControlProtocol(),
    "dmc-vision-flat": ControlProtocol(flat=True),
}


class Control(Game):
    """One task, seen by its first camera (a quadruped by its third)."""

    def __init__(
        self, task: str, *, size: int = 64, protocol: ControlProtocol = PROTOCOLS["dmc-vision"]
    ) -> None:
        prepare()
        self._run = render_caller()
        self._stage: Stage = self._run(open_stage, canonical_task(task), size, protocol)
        # For environments that are never closed, and before dm_control's own exit handler frees
        # these objects on the wrong thread.
        self._free = weakref.finalize(self, self._run, self._stage.free)
        atexit.register(self._free)
        super().__init__(
            frame_shape=FrameShape(size, size),
            action_space=ActionSpace(len(self._stage.low), discrete=False),
            limit=protocol.steps // protocol.repeat,
        )

    def begin(self, seed: int) -> NDArray[Any]:
        frame: NDArray[np.uint8] = self._run(self._stage.begin, seed)
        return frame

    def advance(self, action: NDArray[Any]) -> EnvStep:
        step: EnvStep = self._run(self._stage.advance, action)
        return step

    def close(self) -> None:
        super().close()
        self._free()
        atexit.unregister(self._free)


class Stage:
    """A task of the suite and its camera, for use on one thread only."""

    def __init__(self, environment: Any, size: int, camera: int, protocol: ControlProtocol) -> None:
        from dm_control.mujoco import Camera

        self._environment = environment
        self._repeat = protocol.repeat
        self._flags = {"shadow": False, "reflection": False} if protocol.flat else None
        prepare_rendering(environment.physics.model.vis, size, protocol.flat)
        with explain_renderer_errors():
            # One camera for all frames: making one takes longer than rendering a flat frame.
            self._camera = Camera(environment.physics, size, size, camera)
            self._render()
        self.low, self.high = action_bounds(environment.action_spec())

    def begin(self, seed: int) -> NDArray[np.uint8]:
        self._environment.task.random.seed([seed % 2**32, seed >> 32])
        self._environment.reset()
        return self._render()

    def advance(self, action: NDArray[Any]) -> EnvStep:
        """A last step with discount 0 is terminated, with any other truncated."""
        share = (np.clip(action, -1, 1).astype(np.float64) + 1) / 2
        native = self.low + share * (self.high - self.low)
        reward = 0.0
        for _ in range(self._repeat):
            step = self._environment.step(native)
            reward += float(step.reward)
            if step.last():
                break
        over, terminated = step.last(), step.last() and step.discount == 0
        return EnvStep(self._render(), reward, terminated, over and not terminated, over)

    def free(self) -> None:
        self._environment.physics.free()
        del self._camera, self._environment

    def _render(self) -> NDArray[np.uint8]:
        # A copy, because the camera reuses its buffer.
        frame: NDArray[np.uint8] = self._camera.render(render_flag_overrides=self._flags)
        return frame.copy()


def prepare() -> None:
    """Choose a renderer, after an import that fails at once if dm_control is missing."""
    import dm_control  # noqa: F401

    choose_renderer()


def open_stage(task: str, size: int, protocol: ControlProtocol) -> Stage:
    """Make the stage of a task; must run on the thread that will use it."""
    domain, _, name = task.partition("-")
    with explain_renderer_errors():
        from dm_control import suite
    # Some domains sample while they are built, hence a fixed seed. The time limit is the game's,
    # because lqr has none.
    arguments = {"random": np.random.RandomState(0), "time_limit": float("inf")}
    # MuJoCo warns that the description of cheetah is in an old format.
    with without_warnings():
        environment = suite.load(domain, name, task_kwargs=arguments)
    return Stage(environment, size, CAMERAS.get(domain, 0), protocol)


def prepare_rendering(visual: Any, size: int, flat: bool) -> None:
    """Set what MuJoCo reads when it makes a rendering context; the buffer holds one frame."""
    visual.global_.offwidth = visual.global_.offheight = size
    if flat:
        visual.quality.offsamples = visual.quality.shadowsize = 0


def action_bounds(spec: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What -1 and 1 stand for: the bounds, or themselves where there are none (lqr)."""
    low, high = np.array(spec.minimum, np.float64), np.array(spec.maximum, np.float64)
    return np.where(low <= -UNBOUNDED, -1, low), np.where(high >= UNBOUNDED, 1, high)


def names() -> list[str]:
    return [f"{domain}-{task}" for domain, tasks in SUITE.items() for task in tasks]


def canonical_task(task: str) -> str:
    """The name as stored, `domain-task`; `cup-catch` is `ball_in_cup-catch`."""
    aliases = {"cupcatch": "ball_in_cup-catch"}
    return match_name("task of DeepMind Control", task, names(), aliases)


FAMILY = Family(
    name="dmc",
    about="DeepMind Control from pixels, with continuous actions",
    examples=("dmc:walker-walk", "dmc:cheetah-run", "dmc:cartpole-balance"),
    protocols={name: str(protocol) for name, protocol in PROTOCOLS.items()},
    canonical=canonical_task,
    build=lambda game, size, protocol, evaluation: Control(
        game, size=size, protocol=PROTOCOLS[protocol]
    ),
    extra="control",
    package="dm_control",
    frame_skips={name: protocol.repeat for name, protocol in PROTOCOLS.items()},
)
