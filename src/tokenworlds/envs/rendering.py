"""MuJoCo rendering without a screen: the choice of a renderer, and the thread that uses it."""

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
"""Renderers that need no screen; EGL first, because OSMesa cannot use a graphics card."""
NO_RENDERER = (
    "MuJoCo cannot render here: install libegl1 libgl1 libopengl0 libgl1-mesa-dri "
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
    """Set the renderer before MuJoCo is imported; returns its name, or "" if MuJoCo chooses."""
    chosen = find_renderer(os.environ, sys.platform, renderer_works)
    if chosen:
        os.environ[VARIABLE] = chosen
    if chosen in HEADLESS:
        # `RenderThread` replaces dm_control's threads for OSMesa, which raise errors at exit.
        os.environ.setdefault("DISABLE_RENDER_THREAD_OFFLOADING", "1")
    return chosen


def find_renderer(
    environment: Mapping[str, str], platform: str, works: Callable[[str], bool]
) -> str:
    """The user's choice, or on Linux the first renderer that works without a screen."""
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
def renderer_works(renderer: str) -> bool:
    """Try a renderer in another process, because a broken driver may crash it."""
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
def explain_renderer_errors() -> Iterator[None]:
    """Turn the errors of a renderer that cannot start into a `UserError`."""
    try:
        yield
    except (UserError, ModuleNotFoundError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        chosen = os.environ.get(VARIABLE)
        if not chosen:
            raise UserError(f"{NO_RENDERER} ({reason})") from error
        raise UserError(
            f"MuJoCo cannot render with {VARIABLE}={chosen} ({reason}): choose from "
            f"{', '.join(HEADLESS)}, glfw, or unset it to select one automatically"
        ) from error


class RenderThread:
    """A thread that runs calls in order; OpenGL objects belong to the thread that made them.

    Python does not wait for this thread at exit, so calls at exit can still free objects on it.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]]
        self._calls = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="rendering", daemon=True)
        self._thread.start()

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function on this thread and return its result or raise its error."""
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
def render_thread() -> RenderThread:
    """The one rendering thread of this process."""
    return RenderThread()


def render_caller() -> Callable[..., Any]:
    """A function that calls another one, with its arguments, on the thread for rendering.

    All environments share one thread, so each can be stepped from any thread. GLFW windows are
    an exception: they work only on the caller's thread, which must be the main thread.
    """
    if os.environ.get(VARIABLE) in HEADLESS:
        return render_thread().run
    return lambda function, *arguments: function(*arguments)
