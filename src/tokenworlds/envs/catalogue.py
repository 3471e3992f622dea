"""Names of environments: `family:game`, each family with its protocols."""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tokenworlds.core.errors import UserError, missing_extra, unknown
from tokenworlds.core.protocols import Env
from tokenworlds.envs import atari, control, crafter, gym, minatar
from tokenworlds.envs.atari import Atari
from tokenworlds.envs.catch import Catch
from tokenworlds.envs.control import Control
from tokenworlds.envs.crafter import Crafter
from tokenworlds.envs.grey import Grey
from tokenworlds.envs.gym import Gym
from tokenworlds.envs.minatar import MinAtar
from tokenworlds.envs.steer import Steer

TOYS: Mapping[str, type[Catch] | type[Steer]] = {"catch": Catch, "steer": Steer}
Build = Callable[[str, int, str, bool], Env]


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Environments of one origin. `protocols` names them with a sentence each, the default first.

    `extra` is what pip must bring, and `package` what is then imported; a family without them
    is always there. `canonical` spells a game as it is stored and may need the package. `grey`
    builds a game that draws without colour by itself; others lose theirs on the way. In a family
    with a `nameless` game the family's name alone stands for that game.
    """

    name: str
    about: str
    examples: tuple[str, ...]
    protocols: Mapping[str, str]
    canonical: Callable[[str], str]
    build: Build
    grey: Build | None = None
    extra: str | None = None
    package: str | None = None
    nameless: bool = False

    @property
    def installed(self) -> bool:
        """Whether its games can be played here."""
        return self.package is None or importlib.util.find_spec(self.package) is not None


def describe() -> tuple[Family, ...]:
    """All families, the built-in one first."""
    return FAMILIES


def make(
    name: str,
    *,
    size: int = 64,
    grey: bool = False,
    protocol: str | None = None,
    evaluation: bool = False,
) -> Env:
    """The environment of a name, its frames `size` by `size`, in colour or in grey.

    Evaluation plays whole games, whatever ends an episode in training.
    """
    family, game = _split(canonical(name))
    if size < 8:
        raise UserError(f"frames of size {size}: choose 8 or more")
    chosen = checked_protocol(name, protocol or default_protocol(name))
    try:
        if grey and family.grey:
            return family.grey(game, size, chosen, evaluation)
        env = family.build(game, size, chosen, evaluation)
        return Grey(env) if grey else env
    except ModuleNotFoundError as error:
        if error.name != family.package:
            raise
        raise missing_extra(_join(family, game), str(family.extra)) from error


def canonical(name: str) -> str:
    """The full name as it is stored: `catch` is `toy:catch`, `atari:pong` is `atari:Pong`."""
    family, game = _split(name)
    return _join(family, family.canonical(game) if family.installed else game)


def default_protocol(name: str) -> str:
    """The protocol of an environment when none is named."""
    return next(iter(_split(name)[0].protocols))


def checked_protocol(name: str, protocol: str) -> str:
    """The protocol, if the environment can be played by it."""
    protocols = _split(name)[0].protocols
    if protocol not in protocols:
        raise unknown(f"protocol for {name}", protocol, protocols)
    return protocol


def best_return(name: str) -> float | None:
    """The best possible mean return of a game, where it is known."""
    family, game = _split(canonical(name))
    return TOYS[game].best_return if family.name == "toy" else None


def _split(name: str) -> tuple[Family, str]:
    family, colon, game = name.partition(":")
    if not colon and name in TOYS:
        return _family("toy"), name
    if name in {family.name for family in FAMILIES if family.nameless}:
        return _family(name), ""
    if not colon or not game:
        raise unknown("environment", name, [*TOYS, *(e for f in FAMILIES for e in f.examples)])
    return _family(family), game


def _join(family: Family, game: str) -> str:
    return f"{family.name}:{game}" if game else family.name


def _family(name: str) -> Family:
    families = {family.name: family for family in FAMILIES}
    if name not in families:
        raise unknown("environment family", name, families)
    return families[name]


def _canonical_toy(game: str) -> str:
    if game not in TOYS:
        raise unknown("toy", game, TOYS)
    return game


def _build_atari(game: str, size: int, protocol: str, evaluation: bool, grey: bool = False) -> Env:
    rules = atari.PROTOCOLS[protocol]
    return Atari(game, size=size, grey=grey, protocol=rules, evaluation=evaluation)


FAMILIES = (
    Family(
        name="toy",
        about="small games that a laptop learns in minutes",
        examples=tuple(f"toy:{toy}" for toy in TOYS),
        protocols={"toy": "the rules of the game; steer is cut off after 16 steps"},
        canonical=_canonical_toy,
        build=lambda game, size, protocol, evaluation: TOYS[game](size=size),
    ),
    Family(
        name="atari",
        about="Atari 2600, one agent, as in the Atari 100k benchmark",
        examples=("atari:Pong", "atari:Breakout", "atari:MsPacman"),
        protocols={name: str(protocol) for name, protocol in atari.PROTOCOLS.items()},
        canonical=atari.canonical_game,
        build=_build_atari,
        grey=partial(_build_atari, grey=True),
        extra="atari",
        package="ale_py",
    ),
    Family(
        name="crafter",
        about="survival and 22 achievements in a new world every game, with or without rewards",
        examples=("crafter", "crafter:noreward"),
        protocols=crafter.PROTOCOLS,
        canonical=crafter.canonical_game,
        build=lambda game, size, protocol, evaluation: Crafter(game, size=size),
        extra="crafter",
        package="crafter",
        nameless=True,
    ),
    Family(
        name="dmc",
        about="DeepMind Control from pixels: physics, steered by vectors",
        examples=("dmc:walker-walk", "dmc:cheetah-run", "dmc:cartpole-balance"),
        protocols={name: str(protocol) for name, protocol in control.PROTOCOLS.items()},
        canonical=control.canonical_task,
        build=lambda game, size, protocol, evaluation: Control(
            game, size=size, protocol=control.PROTOCOLS[protocol]
        ),
        extra="control",
        package="dm_control",
    ),
    Family(
        name="minatar",
        about="five miniatures of Atari games, drawn in colours",
        examples=tuple(f"minatar:{game}" for game in minatar.GAMES),
        protocols={name: str(protocol) for name, protocol in minatar.PROTOCOLS.items()},
        canonical=minatar.canonical_game,
        build=lambda game, size, protocol, evaluation: MinAtar(
            game, size=size, protocol=minatar.PROTOCOLS[protocol]
        ),
        extra="minatar",
        package="minatar",
    ),
    Family(
        name="gym",
        about="any Gymnasium id, seen through its rendered pixels",
        examples=("gym:CartPole-v1", "gym:Pendulum-v1", "gym:MountainCarContinuous-v0"),
        protocols=gym.PROTOCOLS,
        canonical=str,
        build=lambda game, size, protocol, evaluation: Gym(game, size=size),
        extra="gym",
        package="pygame",
    ),
)
