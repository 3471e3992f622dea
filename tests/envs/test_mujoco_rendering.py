import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping

import pytest

from tokenworlds.core.errors import UserError
from tokenworlds.envs.rendering import (
    NO_RENDERER,
    explain_renderer_errors,
    find_renderer,
    render_caller,
    render_thread,
    renderer_works,
)


def only(*renderers: str) -> Callable[[str], bool]:
    return lambda renderer: renderer in renderers


def untried(renderer: str) -> bool:
    raise AssertionError(f"{renderer} was tried")


@pytest.mark.parametrize(
    ("environment", "platform", "works", "chosen"),
    [
        ({"MUJOCO_GL": "glfw"}, "linux", untried, "glfw"),
        ({"MUJOCO_GL": "EGL"}, "linux", untried, "egl"),
        ({}, "darwin", untried, ""),
        ({}, "win32", untried, ""),
        ({}, "linux", only("egl", "osmesa"), "egl"),
        ({"MUJOCO_GL": ""}, "linux", only("egl"), "egl"),
        ({"DISPLAY": ":0"}, "linux", only("egl"), "egl"),
        ({}, "linux", only("osmesa"), "osmesa"),
        ({"DISPLAY": ":0"}, "linux", only(), ""),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", only(), ""),
    ],
)
def test_the_user_chooses_the_renderer_or_the_first_that_works_without_a_screen(
    environment: Mapping[str, str], platform: str, works: Callable[[str], bool], chosen: str
) -> None:
    assert find_renderer(environment, platform, works) == chosen


def test_without_a_renderer_the_system_packages_are_named() -> None:
    with pytest.raises(UserError, match=r"libegl1 libgl1 libopengl0 libgl1-mesa-dri.*libosmesa6"):
        find_renderer({}, "linux", only())


def test_an_unknown_renderer_does_not_work() -> None:
    assert not renderer_works("nonsense")


def test_a_chosen_renderer_that_does_not_work_is_named() -> None:
    pytest.importorskip("dm_control")
    code = "from tokenworlds.envs import make; make('dmc:cartpole-balance')"
    environment = {**os.environ, "MUJOCO_GL": "nonsense"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    last = done.stderr.splitlines()[-1]
    assert "UserError: MuJoCo cannot render with MUJOCO_GL=nonsense" in last
    assert "choose from egl, osmesa, glfw" in last


def test_an_error_of_the_default_renderer_names_the_system_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    with pytest.raises(UserError) as caught, explain_renderer_errors():
        raise RuntimeError("no context")
    assert str(caught.value) == f"{NO_RENDERER} (RuntimeError: no context)"


def test_a_missing_package_is_not_reported_as_a_missing_renderer() -> None:
    with pytest.raises(ModuleNotFoundError), explain_renderer_errors():
        raise ModuleNotFoundError(name="dm_control")


def test_without_a_screen_one_thread_renders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MUJOCO_GL", "egl")
    names = {render_caller()(threading.current_thread) for _ in range(3)}
    assert len(names) == 1
    assert threading.current_thread() not in names


def test_windows_stay_on_the_thread_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    assert render_caller()(threading.current_thread) is threading.current_thread()


def test_the_render_thread_returns_errors_and_continues() -> None:
    thread = render_thread()
    with pytest.raises(ZeroDivisionError):
        thread.run(lambda: 1 // 0)
    assert thread.run(divmod, 7, 2) == (3, 1)


def test_the_render_thread_can_call_itself() -> None:
    thread = render_thread()
    assert thread.run(thread.run, divmod, 7, 2) == (3, 1)
