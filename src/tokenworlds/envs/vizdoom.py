"""ViZDoom (Wydmuch et al., 2019): scenarios of the game Doom."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium

from tokenworlds.envs.game import Family, match_name
from tokenworlds.envs.gym import Gym, prepare_rendering
from tokenworlds.envs.options import EnvOptions

SCENARIOS = (
    *("Basic", "DeadlyCorridor", "DefendCenter", "DefendLine", "HealthGathering"),
    *("HealthGatheringSupreme", "MyWayHome", "PredictPosition", "TakeCover"),
)
"""Deathmatch has continuous and discrete actions at once, which no agent here has."""
FRAME_SKIP = 4
LEFTOVER = "_vizdoom"
"""A folder for saved games, which Doom makes in the current folder."""


class Doom(Gym):
    """One scenario; its own clock truncates an episode, death or success terminates it."""

    def __init__(self, scenario: str, *, size: int = 64) -> None:
        prepare_rendering()
        import vizdoom
        import vizdoom.gymnasium_wrapper

        made: gymnasium.Env[Any, Any] = gymnasium.make(
            f"Vizdoom{scenario}-v1",
            disable_env_checker=True,
            frame_skip=FRAME_SKIP,
            screen_resolution=vizdoom.ScreenResolution.RES_160X120,
        )
        doom: Any = made.unwrapped
        # Else Doom would write its settings to the current folder.
        doom.game.set_doom_config_path(os.devnull)
        was_there = Path(LEFTOVER).exists()
        options, name = EnvOptions(image_key="screen"), f"vizdoom:{scenario}"
        with without_interrupts():
            super().__init__(made, name=name, size=size, options=options)
        if not was_there:
            with contextlib.suppress(OSError):
                Path(LEFTOVER).rmdir()

    def _step(self, native: Any) -> tuple[Any, float, bool, bool]:
        observation, reward, terminated, truncated = super()._step(native)
        # ViZDoom calls every episode that is over terminated, also at the end of its time.
        return observation, reward, terminated and not truncated, truncated


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes that are started here never receive Ctrl-C, which a terminal sends to all."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def canonical_scenario(scenario: str) -> str:
    return match_name("ViZDoom scenario", scenario, SCENARIOS)


FAMILY = Family(
    name="vizdoom",
    about="scenarios of the game Doom, one button at a time",
    examples=("vizdoom:Basic", "vizdoom:HealthGathering", "vizdoom:MyWayHome"),
    protocols={
        "vizdoom": f"actions repeated for {FRAME_SKIP} frames, one button or none; 160 x 120"
    },
    canonical=canonical_scenario,
    build=lambda game, size, protocol, evaluation: Doom(game, size=size),
    extra="vizdoom",
    package="vizdoom",
    frame_skips={"vizdoom": FRAME_SKIP},
)
