"""Atari 2600 games on the Arcade Learning Environment (Machado et al., 2018).

Each game is a function of its seed and the actions. Without sticky actions the emulator is
deterministic, but its reset alone keeps traces of the game before (in Assault and KungFuMaster,
among others), and a restored state alone loses a part of the score keeping (Amidar, Qbert). A
reset followed by restoring the state of the first start is exact in every game. With sticky
actions the emulator reads its seed only when it loads a ROM, so every game loads it again.
"""

import contextlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenworlds.core.seeding import derive, numpy_generator
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.frames import resize_area
from tokenworlds.envs.game import Family, Game, match_name

# These ROMs have no mode for one player; one of them makes the emulator exit the process.
TWO_PLAYERS = {"combat", "joust", "maze_craze", "warlords"}


@dataclass(frozen=True, kw_only=True, slots=True)
class AtariProtocol:
    """Rules of play; `no_ops`, `skip` and `frames` count raw frames of the emulator, 60 a second.

    With `lives_end`, a lost life terminates an episode in training, but never in evaluation.
    With `lives_stop_skip`, it also stops the repetition of the action, in both.
    """

    sticky: float = 0.0
    no_ops: int = 30
    skip: int = 4
    frames: int = 108_000
    lives_end: bool = True
    lives_stop_skip: bool = False

    def __str__(self) -> str:
        sticky = f"sticky actions {self.sticky}" if self.sticky else "no sticky actions"
        no_ops = f"1 to {self.no_ops} no-ops" if self.no_ops else "no no-ops"
        lives = (
            "a lost life ends a training episode" if self.lives_end else "lost lives are ignored"
        )
        return f"{sticky}, {no_ops}, skip {self.skip}, {lives}, at most {self.frames} raw frames"


PROTOCOLS: Mapping[str, AtariProtocol] = {
    "atari100k": AtariProtocol(),
    "atari100k-sticky": AtariProtocol(sticky=0.25),
    "drama": AtariProtocol(no_ops=0, lives_stop_skip=True),
    "storm": AtariProtocol(sticky=0.25, no_ops=0),
    "swm": AtariProtocol(frames=400_000, lives_end=False),
}


class Atari(Game):
    """One game: maximum of the last two raw frames, area resize, minimal action set.

    With `grey`, the maximum is taken over the emulator's own grey screens.
    """

    def __init__(
        self,
        game: str,
        *,
        size: int = 64,
        grey: bool = False,
        protocol: AtariProtocol = PROTOCOLS["atari100k"],
        evaluation: bool = False,
    ) -> None:
        self._protocol = protocol
        self._lives_end = protocol.lives_end and not evaluation
        self._grey = grey
        self._rom = rom_path(game)
        self._ale = new_interface(protocol)
        self._start: tuple[Any, NDArray[np.uint8]] | None = None
        self._lives = 0
        self._load(seed=0)
        self._actions = self._ale.getMinimalActionSet()
        shape, space = FrameShape(size, size, 1 if grey else 3), ActionSpace(len(self._actions))
        super().__init__(frame_shape=shape, action_space=space)

    def begin(self, seed: int) -> NDArray[Any]:
        screens = [self._restart(seed)]
        if self._protocol.no_ops:
            generator = numpy_generator(seed, "no-ops")
            count = int(generator.integers(1, self._protocol.no_ops + 1))
            screens = self._idle(count, screens)
        self._lives = self._ale.lives()
        return self._frame(screens)

    def advance(self, action: NDArray[Any]) -> EnvStep:
        reward, lost, screens = self._repeat(self._actions[int(action)])
        over = self._ale.game_over()
        terminated = self._ale.game_over(with_truncation=False) or (lost and self._lives_end)
        truncated = self._ale.game_truncated() and not terminated
        return EnvStep(self._frame(screens), float(reward), terminated, truncated, over)

    def _repeat(self, action: Any) -> tuple[int, bool, list[NDArray[np.uint8]]]:
        """The summed reward, whether a life was lost, and the last screens, at most two."""
        reward, lost = 0, False
        screens: list[NDArray[np.uint8]] = []
        for frame in range(self._protocol.skip):
            reward += self._ale.act(action)
            lost = self._loses_life() or lost
            stop = self._ale.game_over() or (lost and self._protocol.lives_stop_skip)
            if stop or frame >= self._protocol.skip - 2:
                screens.append(self._screen())
            if stop:
                break
        return reward, lost, screens

    def _loses_life(self) -> bool:
        # Some games first count up from 0 to their number of lives; all fall to 0 when over.
        before, self._lives = self._lives, self._ale.lives()
        return bool(0 < self._lives < before)

    def _idle(self, count: int, screens: list[NDArray[np.uint8]]) -> list[NDArray[np.uint8]]:
        for frame in range(count):
            self._ale.act(0)
            if self._ale.game_over():
                self._ale.reset_game()
            if frame >= count - 2:
                screens.append(self._screen())
        return screens[-2:]

    def _screen(self) -> NDArray[np.uint8]:
        grey = self._grey
        screen = self._ale.getScreenGrayscale()[..., None] if grey else self._ale.getScreenRGB()
        return np.asarray(screen)

    def _frame(self, screens: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
        screen = screens[0] if len(screens) == 1 else np.maximum(*screens)
        return resize_area(screen, self.frame_shape.height, self.frame_shape.width)

    def _restart(self, seed: int) -> NDArray[np.uint8]:
        """The first screen of a new game."""
        if self._protocol.sticky or self._start is None:
            return self._load(seed)
        state, screen = self._start
        self._ale.reset_game()
        self._ale.restoreState(state)
        return screen

    def _load(self, seed: int) -> NDArray[np.uint8]:
        self._ale.setInt("random_seed", 1 + derive(seed, "ale") % (2**31 - 2))
        self._ale.loadROM(self._rom)
        self._ale.reset_game()
        screen = self._screen()
        self._start = (self._ale.cloneState(include_rng=True), screen)
        return screen


def new_interface(protocol: AtariProtocol) -> Any:
    """An emulator with every setting given explicitly; it prints only errors."""
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", protocol.sticky)
    ale.setInt("frame_skip", 1)
    ale.setBool("color_averaging", False)
    ale.setInt("max_num_frames_per_episode", protocol.frames)
    ale.setBool("truncate_on_loss_of_life", False)
    return ale


def games() -> dict[str, str]:
    """The ROM (ms_pacman) of each game as papers spell it (MsPacman)."""
    from ale_py import roms

    ids = sorted(set(roms.get_all_rom_ids()) - TWO_PLAYERS)
    return {rom.title().replace("_", ""): rom for rom in ids}


def canonical_game(game: str) -> str:
    """The name as papers spell it."""
    return match_name("Atari game", game, games())


def rom_path(game: str) -> str:
    from ale_py import roms

    # ale_py prints if the user has set a ROM folder; standard output may be a JSON document.
    with contextlib.redirect_stdout(io.StringIO()):
        return str(roms.get_rom_path(games()[canonical_game(game)]))


def build(game: str, size: int, protocol: str, evaluation: bool, grey: bool = False) -> Atari:
    rules = PROTOCOLS[protocol]
    return Atari(game, size=size, grey=grey, protocol=rules, evaluation=evaluation)


FAMILY = Family(
    name="atari",
    about="Atari 2600 games for one player, as in the Atari 100k benchmark",
    examples=("atari:Pong", "atari:Breakout", "atari:MsPacman"),
    protocols={name: str(protocol) for name, protocol in PROTOCOLS.items()},
    canonical=canonical_game,
    build=build,
    build_grey=partial(build, grey=True),
    extra="atari",
    package="ale_py",
    frame_skips={name: protocol.skip for name, protocol in PROTOCOLS.items()},
)
