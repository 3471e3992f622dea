"""Base class of the environments, and the declaration of a family of them."""

import contextlib
import importlib.util
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenworlds.core.errors import unknown
from tokenworlds.core.protocols import Env
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape

Action = NDArray[Any] | np.generic | int
Build = Callable[[str, int, str, bool], Env]
"""From game, frame size, protocol and whether this is an evaluation."""


class Game(ABC):
    """An `Env` defined by `begin` and `advance`.

    This class checks actions, applies the step limit and refuses steps outside a game.
    """

    def __init__(
        self, *, frame_shape: FrameShape, action_space: ActionSpace, limit: int | None = None
    ) -> None:
        """`limit` is the number of agent steps after which a game is truncated."""
        self.frame_shape = frame_shape
        self.action_space = action_space
        self._limit = limit
        self._steps = 0
        self._over = True

    @abstractmethod
    def begin(self, seed: int) -> NDArray[Any]:
        """Set up a game and return its first frame; all randomness must come from the seed."""

    @abstractmethod
    def advance(self, action: NDArray[Any]) -> EnvStep:
        """Execute a legal action."""

    def reset(self, seed: int) -> NDArray[Any]:
        frame = self.begin(seed)
        self._steps, self._over = 0, False
        return frame

    def step(self, action: Action) -> EnvStep:
        if self._over:
            raise RuntimeError("no game is running: call reset before step")
        step = self._limited(self.advance(self._checked(action)))
        self._over = step.over
        return step

    def close(self) -> None:
        self._over = True

    def _checked(self, action: Action) -> NDArray[Any]:
        array = np.asarray(action)
        expected = () if self.action_space.discrete else (self.action_space.size,)
        if array.shape != expected:
            raise ValueError(f"action of shape {array.shape}: the shape must be {expected}")
        if self.action_space.discrete and not 0 <= array < self.action_space.size:
            raise ValueError(f"action {array}: choose from 0..{self.action_space.size - 1}")
        return array

    def _limited(self, step: EnvStep) -> EnvStep:
        self._steps += 1
        if self._limit is None or self._steps < self._limit or step.over:
            return step
        return replace(step, truncated=not step.terminated, over=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Environments called `name:game`. The catalogue finds each one that a module declares.

    `protocols` describes the protocols by name, the default first. `canonical` returns the stored
    spelling of a game and may import `package`, which pip installs with the extra `extra`.
    `build_grey` is for games that render grey frames themselves; others are converted.
    `short_names` are complete names of environments, each with the game that it stands for.
    With `has_options`, a protocol may be followed by options (`EnvOptions`); `example_protocol` has
    those that the examples need.
    """

    name: str
    about: str
    examples: tuple[str, ...]
    protocols: Mapping[str, str]
    canonical: Callable[[str], str]
    build: Build
    build_grey: Build | None = None
    extra: str | None = None
    package: str | None = None
    short_names: Mapping[str, str] = field(default_factory=dict)
    best_returns: Mapping[str, float] = field(default_factory=dict)
    """The best possible mean return of a game, where it is known."""
    frame_skips: Mapping[str, int] = field(default_factory=dict)
    """Raw frames per agent step of a protocol, if more than 1."""
    has_options: bool = False
    example_protocol: str = ""

    @property
    def installed(self) -> bool:
        return self.package is None or importlib.util.find_spec(self.package) is not None


def match_name(
    kind: str, given: str, names: Iterable[str], aliases: Mapping[str, str] | None = None
) -> str:
    """The one of `names` that equals a given name up to case and separators."""
    names = tuple(names)
    spellings = {plain(name): name for name in names} | dict(aliases or {})
    if plain(given) not in spellings:
        raise unknown(kind, given, names)
    return spellings[plain(given)]


def plain(name: str) -> str:
    """The lower-case letters and digits of a name."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Silence the warnings that a package logs."""
    root, silence = logging.getLogger(), logging.NullHandler()
    disabled = root.manager.disable
    # Without a handler a warning would configure logging for the whole process.
    root.addHandler(silence)
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(disabled)
        root.removeHandler(silence)
