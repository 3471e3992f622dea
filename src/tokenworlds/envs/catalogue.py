"""Environments by name (`family:game`) and protocol."""

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass

from tokenworlds.core.errors import UserError, missing_extra, unknown
from tokenworlds.core.protocols import Env
from tokenworlds.envs.boundary import check_spaces, naming_failures
from tokenworlds.envs.frames import Grey
from tokenworlds.envs.game import Family
from tokenworlds.envs.options import EnvOptions, join_protocol, split_protocol, with_options
from tokenworlds.envs.own import PYTHON, names_module

SMALLEST = 8


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """An environment and the protocol that its scores are stored with.

    Any accepted spelling of the name may be given, and no protocol means the family's default.
    Both are stored in full, so that equal environments have equal specs.
    """

    name: str
    protocol: str = ""
    size: int = 64
    grey: bool = False

    def __post_init__(self) -> None:
        family, _ = _split(self.name)
        protocol, options = split_protocol(self.protocol)
        protocol = protocol or next(iter(family.protocols))
        if protocol not in family.protocols:
            raise unknown(f"protocol for {self.name}", protocol, family.protocols)
        if options != EnvOptions() and not family.has_options:
            raise UserError(f"{self.name} takes no option {options}: its protocol decides")
        object.__setattr__(self, "name", canonical(self.name))
        object.__setattr__(self, "protocol", join_protocol(protocol, options))

    @property
    def frame_skip(self) -> int:
        """Raw frames of the emulator per agent step."""
        protocol, options = split_protocol(self.protocol)
        return _split(self.name)[0].frame_skips.get(protocol, 1) * options.frame_skip

    def make(self, *, evaluation: bool = False) -> Env:
        """The environment, with square frames; evaluation plays whole games."""
        family, game = _split(self.name)
        if self.size < SMALLEST:
            raise UserError(f"frames of size {self.size}: choose {SMALLEST} or more")
        native = self.grey and family.build_grey
        with naming_failures(self.name, "cannot be made"):
            try:
                env = (native or family.build)(game, self.size, self.protocol, evaluation)
            except ModuleNotFoundError as error:
                if error.name != family.package:
                    raise
                raise missing_extra(self.name, str(family.extra)) from error
            check_spaces(env)
            return Grey(env) if self.grey and not native else env


def make(
    name: str,
    *,
    size: int = 64,
    grey: bool = False,
    protocol: str | None = None,
    evaluation: bool = False,
    **options: object,
) -> Env:
    """The environment of a name, with options of `EnvOptions`; see `EnvSpec`."""
    chosen = with_options(protocol or "", options)
    return EnvSpec(name, chosen, size, grey).make(evaluation=evaluation)


@functools.cache
def families() -> Mapping[str, Family]:
    """Each `Family` that a module of this package declares, by name; the built-in one first."""
    package = importlib.import_module(__name__.rpartition(".")[0])
    stems = [module.name for module in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"{package.__name__}.{stem}") for stem in stems]
    values = [value for module in modules for value in vars(module).values()]
    found = [value for value in values if isinstance(value, Family)]
    found.sort(key=lambda family: (family.package is not None, family.has_options, family.name))
    return {family.name: family for family in found}


def example_spec(name: str, size: int = 64) -> EnvSpec:
    """An example of its family, with the options that it needs."""
    return EnvSpec(name, _split(name)[0].example_protocol, size)


def canonical(name: str) -> str:
    """The full name as stored: `toy:catch` for `catch`, `atari:Pong` for `atari:pong`."""
    family, game = _split(name)
    game = family.canonical(game) if family.installed else game
    return f"{family.name}:{game}" if game else family.name


def module_of(name: str) -> str | None:
    """The module that a name asks to import: `gym:my_games:Maze-v0`, `my_env.py:make`."""
    family, game = _split(name)
    module, colon, _ = game.rpartition(":")
    return module if family.has_options and colon else None


def best_return(name: str) -> float | None:
    """The best possible mean return of a game, if it is known."""
    family, game = _split(canonical(name))
    return family.best_returns.get(game)


def _split(name: str) -> tuple[Family, str]:
    for family in families().values():
        if name in family.short_names:
            return family, family.short_names[name]
    prefix, _, game = name.partition(":")
    if game and names_module(prefix):
        return families()[PYTHON], name
    if not game:
        found = families().values()
        names = {name for family in found for name in (*family.short_names, *family.examples)}
        raise unknown("environment", name, names)
    if prefix not in families():
        error = unknown("environment family", prefix, families())
        raise UserError(f"{error}; an environment of your own is my_env.py:make")
    return families()[prefix], game
