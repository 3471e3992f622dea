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
        protocols = _split(self.name)[0].protocols
        protocol = self.protocol or next(iter(protocols))
        if protocol not in protocols:
            raise unknown(f"protocol for {self.name}", protocol, protocols)
        object.__setattr__(self, "name", canonical(self.name))
        object.__setattr__(self, "protocol", protocol)

    @property
    def frame_skip(self) -> int:
        """Raw frames of the emulator per agent step."""
        return _split(self.name)[0].frame_skips.get(self.protocol, 1)

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
) -> Env:
    """The environment of a name; see `EnvSpec`."""
    return EnvSpec(name, protocol or "", size, grey).make(evaluation=evaluation)


@functools.cache
def families() -> Mapping[str, Family]:
    """Each `Family` that a module of this package declares, by name; the built-in one first."""
    package = importlib.import_module(__name__.rpartition(".")[0])
    stems = [module.name for module in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"{package.__name__}.{stem}") for stem in stems]
    values = [value for module in modules for value in vars(module).values()]
    found = [value for value in values if isinstance(value, Family)]
    found.sort(key=lambda family: (family.package is not None, family.name))
    return {family.name: family for family in found}


def canonical(name: str) -> str:
    """The full name as stored: `toy:catch` for `catch`, `atari:Pong` for `atari:pong`."""
    family, game = _split(name)
    game = family.canonical(game) if family.installed else game
    return f"{family.name}:{game}" if game else family.name


def module_of(name: str) -> str | None:
    """The module that an environment's name asks to import, as in `gym:my_games:Maze-v0`."""
    family, game = _split(name)
    module, colon, _ = game.partition(":")
    return module if family.name == "gym" and colon else None


def best_return(name: str) -> float | None:
    """The best possible mean return of a game, if it is known."""
    family, game = _split(canonical(name))
    return family.best_returns.get(game)


def _split(name: str) -> tuple[Family, str]:
    for family in families().values():
        if name in family.short_names:
            return family, family.short_names[name]
    prefix, _, game = name.partition(":")
    if not game:
        found = families().values()
        names = {name for family in found for name in (*family.short_names, *family.examples)}
        raise unknown("environment", name, names)
    if prefix not in families():
        raise unknown("environment family", prefix, families())
    return families()[prefix], game
