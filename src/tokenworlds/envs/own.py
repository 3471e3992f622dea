"""Environments of the user's own: a factory in a file or module, or a Python object."""

import copy
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

import gymnasium

from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.own_modules import load_once
from tokenworlds.envs.game import Family
from tokenworlds.envs.gym import (
    OBSERVED,
    PROTOCOLS,
    Gym,
    check_render_mode,
    explain_missing_packages,
    import_own,
    options_of,
    prepare_rendering,
)

PYTHON = "python"
FILE = ".py"
Factory = Callable[..., "gymnasium.Env[Any, Any]"]
_GIVEN: dict[str, Factory] = {}
"""Factories that `named_env` was given in this process, by name."""
_MOVED: dict[str, str] = {}
"""Where the user says that a file of a run is now."""


def named_env(env: object, name: str = "") -> str:
    """The name that `EnvSpec` takes for an environment given in Python.

    A callable makes each environment of a run; an instance is copied for each. A function or class
    of a module is named after it, `python:my_package.envs:make`, and other processes can make it.
    All else exists in this process only; to go on with a run, give it again under the `name` that
    the run stored.
    """
    if isinstance(env, str):
        return env
    if isinstance(env, gymnasium.Env):
        return _keep(copying(env), name or type(env).__name__)
    if not callable(env):
        raise UserError(
            f"an environment is a name, a gymnasium.Env or a callable that makes one, not "
            f"{type(env).__name__}"
        )
    return (not name and importable_name(env)) or _keep(env, name or short_name(env))


def _keep(factory: Factory, name: str) -> str:
    game = name.removeprefix(f"{PYTHON}:")
    if game == name:
        # Another environment of this name may still be in use.
        taken = 2
        while game in _GIVEN:
            game, taken = f"{name}-{taken}", taken + 1
    _GIVEN[game] = factory
    return f"{PYTHON}:{game}"


def short_name(env: Factory) -> str:
    name = getattr(env, "__name__", type(env).__name__)
    return name if name.isidentifier() else "env"


def importable_name(env: Factory) -> str | None:
    """`python:module:factory`, if another process would find the same object there."""
    module, path = getattr(env, "__module__", None), getattr(env, "__qualname__", "")
    found: Any = sys.modules.get(module or "")
    for part in path.split("."):
        found = getattr(found, part, None)
    return f"{PYTHON}:{module}:{path}" if found is env and module != "__main__" else None


def copying(env: "gymnasium.Env[Any, Any]") -> Factory:
    """A factory of copies of an instance, which itself is never stepped."""
    try:
        original = copy.deepcopy(env)
    except Exception as error:
        raise UserError(
            f"{type(env).__name__} cannot be copied ({type(error).__name__}: {error}): pass a "
            f"callable that makes it, because training and evaluation each need one"
        ) from error
    return lambda: copy.deepcopy(original)


def take_moved(stored: str, given: str) -> bool:
    """Whether a given name is a stored one whose file is in another folder now.

    The stored name is then made from there, as long as there is no file in its own place.
    """
    prefix = f"{PYTHON}:"
    games = [name.removeprefix(prefix) for name in (stored, given) if name.startswith(prefix)]
    places = [game.rpartition(":")[0] for game in games]
    if len(games) < 2 or not all(place.endswith(FILE) for place in places):
        return False
    if len({os.path.basename(game) for game in games}) > 1 or os.path.exists(places[0]):
        return False
    _MOVED[games[0]] = games[1]
    return True


def names_module(prefix: str) -> bool:
    """Whether the beginning of a name is a file or a module of a package, and no family."""
    return prefix.endswith(FILE) or "." in prefix


def canonical_factory(game: str) -> str:
    """The name as stored; a file's path is relative to the current folder."""
    module, colon, factory = game.rpartition(":")
    if colon and not (module and factory):
        raise UserError(
            f"{game!r} names no environment: write my_env.py:make or package.module:make"
        )
    return f"{os.path.relpath(module)}:{factory}" if module.endswith(FILE) else game


def open_own(name: str, game: str, *, render: bool) -> "gymnasium.Env[Any, Any]":
    module, colon, path = game.rpartition(":")
    if game in _MOVED and not os.path.exists(module):
        module = _MOVED[game].rpartition(":")[0]
    factory = find_factory(name, module, path) if colon else find_given(name, game)
    if render:
        check_render_mode(name, factory)
    with explain_missing_packages(name):
        made = call(factory, render)
    if not isinstance(made, gymnasium.Env):
        raise UserError(f"{name} makes a {type(made).__name__}, not a gymnasium.Env")
    return made


def find_given(name: str, game: str) -> Factory:
    if game not in _GIVEN:
        raise UserError(
            f"{name} exists only in the Python process that made it: give the environment again "
            f"(in Python: env=...)"
        )
    return _GIVEN[game]


def find_factory(name: str, module: str, path: str) -> Factory:
    """The function or class at a dotted path of a file or module."""
    found: Any = load_once(module) if module.endswith(FILE) else import_own(name, module)
    for part in path.split("."):
        if not hasattr(found, part):
            public = [key for key, value in vars(found).items() if callable(value)]
            raise unknown(f"factory in {module}", path, public)
        found = getattr(found, part)
    if not callable(found):
        raise UserError(
            f"{name} is a {type(found).__name__}: name a function that makes a gymnasium.Env"
        )
    factory: Factory = found
    return factory


def call(factory: Factory, render: bool) -> Any:
    """Make an environment; the render mode is passed only if the factory takes one."""
    takes_mode = "render_mode" in inspect.signature(factory).parameters
    return factory(render_mode="rgb_array") if render and takes_mode else factory()


def build(game: str, size: int, protocol: str, evaluation: bool) -> Gym:
    prepare_rendering()
    options, name = options_of(protocol), f"{PYTHON}:{game}"
    environment = open_own(name, game, render=options.render)
    return Gym(environment, name=name, size=size, options=options, evaluation=evaluation)


FAMILY = Family(
    name=PYTHON,
    about="a Gymnasium environment of your own: my_env.py:make, my_package.module:make",
    examples=(),
    protocols={OBSERVED: PROTOCOLS[OBSERVED]},
    canonical=canonical_factory,
    build=build,
    has_options=True,
)
