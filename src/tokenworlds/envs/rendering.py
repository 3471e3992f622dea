"""Where MuJoCo draws: a renderer that works without a screen, and the one thread that uses it."""

import contextlib
import functools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from tokenworlds.core.errors import UserError

T = TypeVar("T")
VARIABLE = "MUJOCO_GL"
HEADLESS = ("egl", "osmesa")
"""Renderers that need no screen, the better one first: OSMesa knows no graphics card."""
NO_RENDERER = (
    "MuJoCo cannot draw here: install libegl1 libgl1 libopengl0 libgl1-mesa-dri "
    "(or libosmesa6), for example with apt-get"
)
PROBE = """
import mujoco
context = mujoco.GLContext(8, 8)
context.make_current()
empty = mujoco.MjModel.from_xml_string("<mujoco/>")
mujoco.MjrContext(empty, mujoco.mjtFontScale.mjFONTSCALE_100).free()
context.free()
"""


def choose_renderer() -> str:
    """Settle on a renderer before MuJoCo is imported; returns its name, "" where MuJoCo chooses."""
    chosen = find_renderer(os.environ, sys.platform, draws)
    if chosen:
        os.environ[VARIABLE] = chosen
    if chosen in HEADLESS:
        # Drawing has a thread of its own here; dm_control's threads for OSMesa complain at exit.
        os.environ.setdefault("DISABLE_RENDER_THREAD_OFFLOADING", "1")
    return chosen


def find_renderer(
    environment: Mapping[str, str], platform: str, works: Callable[[str], bool]
) -> str:
    """What the user chose, else on Linux the first that works without a screen."""
    if environment.get(VARIABLE):
        return environment[VARIABLE].lower()
    if not platform.startswith("linux"):
        return ""
    for renderer in HEADLESS:
        if works(renderer):
            return renderer
    if environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"):
        return ""
    raise UserError(NO_RENDERER)


@functools.cache
def draws(renderer: str) -> bool:
    """Whether a renderer works, tried in another process: a broken driver may end its process."""
    environment = {**os.environ, VARIABLE: renderer}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", PROBE],
            env=environment,
            capture_output=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@contextlib.contextmanager
def naming_the_renderer() -> Iterator[None]:
    """Turns what a renderer raises when it cannot begin into one sentence for the user."""
    try:
        yield
    except (UserError, ModuleNotFoundError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        chosen = os.environ.get(VARIABLE)
        raise UserError(
            refusal(chosen, reason) if chosen else f"{NO_RENDERER} ({reason})"
        ) from error


def refusal(chosen: str, reason: str) -> str:
    """What to say of a renderer that was chosen and does not work."""
    return (
        f"MuJoCo cannot draw with {VARIABLE}={chosen} ({reason}); unset it to have a renderer "
        f"found, or choose from {', '.join(HEADLESS)}, glfw"
    )


class DrawingThread:
    """Runs calls one after the other on a thread of its own, to which all that they make belongs.

    A thread that Python does not wait for: what is to be freed at exit is freed on it.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]]
        self._calls = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="drawing", daemon=True)
        self._thread.start()

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """What the function returns or raises there; from there itself it is simply called."""
        if threading.current_thread() is self._thread:
            return function(*arguments)
        answer: Future[T] = Future()
        self._calls.put((answer, function, arguments))
        return answer.result()

    def _serve(self) -> None:
        while True:
            self._answer(*self._calls.get())

    def _answer(
        self, answer: Future[Any], function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        try:
            answer.set_result(function(*arguments))
        except BaseException as error:
            answer.set_exception(error)


@functools.cache
def drawing_thread() -> DrawingThread:
    """The thread of this process that draws without a screen."""
    return DrawingThread()


def where_it_draws() -> Callable[..., Any]:
    """What calls a function that draws, given the function and its arguments.

    What is drawn with belongs to the thread that made it, so there is one for all: an environment
    may be stepped from any thread. Windows (GLFW) belong to the caller's, which is to be the main.
    """
    if os.environ.get(VARIABLE) in HEADLESS:
        return drawing_thread().run
    return lambda function, *arguments: function(*arguments)
