"""Craftax (Matthews et al., 2024): Crafter and its larger successor in JAX, here on the CPU."""

import contextlib
import functools
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenworlds.core.achievements import ACHIEVEMENT
from tokenworlds.core.types import ActionSpace, EnvStep, FrameShape
from tokenworlds.envs.frames import resize_area
from tokenworlds.envs.game import Family, Game, match_name

GAMES: Mapping[str, str] = {"classic": "Craftax-Classic-Pixels-v1", "full": "Craftax-Pixels-v1"}


class Craftax(Game):
    """Death terminates an episode, the game's limit of steps truncates it.

    XLA compiles the game for about a minute, once per process.
    """

    def __init__(self, game: str, *, size: int = 64) -> None:
        self._make, self._step, self._params, actions = compiled(GAMES[game])
        self._most = int(self._params.max_timesteps)
        super().__init__(frame_shape=FrameShape(size, size), action_space=ActionSpace(actions))

    def begin(self, seed: int) -> NDArray[Any]:
        import jax

        self._key = jax.random.fold_in(jax.random.PRNGKey(seed % 2**32), seed >> 32)
        self._count = 0
        image, self._state = self._make(self._key, self._params)
        return self._frame(image)

    def advance(self, action: NDArray[Any]) -> EnvStep:
        import jax

        self._count += 1
        key = jax.random.fold_in(self._key, self._count)
        result = self._step(key, self._state, int(action), self._params)
        image, self._state, reward, done, info = result
        over = bool(done)
        alive = float(self._state.player_health) > 0
        truncated = over and alive and int(self._state.timestep) >= self._most
        counts = achievements(info) if over else {}
        frame = self._frame(image)
        return EnvStep(frame, float(reward), over and not truncated, truncated, over, counts)

    def _frame(self, image: Any) -> NDArray[np.uint8]:
        pixels = np.floor(np.asarray(image) * 255 + 0.5).clip(0, 255).astype(np.uint8)
        return resize_area(pixels, self.frame_shape.height, self.frame_shape.width)


@functools.cache
def compiled(name: str) -> tuple[Any, Any, Any, int]:
    """The functions that begin and step a game, its parameters and its number of actions."""
    with contextlib.redirect_stdout(sys.stderr):
        import craftax  # noqa: F401
        from craftax.craftax_env import make_craftax_env_from_name
    import jax

    # The first use of the package converts textures, and says so on standard output.
    with contextlib.redirect_stdout(sys.stderr):
        env = make_craftax_env_from_name(name, auto_reset=False)
    params = env.default_params
    return jax.jit(env.reset), jax.jit(env.step), params, int(env.action_space(params).n)


def achievements(info: Mapping[str, Any]) -> dict[str, float]:
    """Which achievements the game unlocked, as 0 or 1."""
    prefix = "Achievements/"
    found = {name.removeprefix(prefix): value for name, value in info.items() if prefix in name}
    return {f"{ACHIEVEMENT}{name}": float(value > 0) for name, value in found.items()}


def canonical_game(game: str) -> str:
    return match_name("Craftax game", game, GAMES)


FAMILY = Family(
    name="craftax",
    about="Crafter and its larger successor in JAX, on the CPU",
    examples=tuple(f"craftax:{game}" for game in GAMES),
    protocols={"craftax": "rewards, deaths and 10,000 steps of the benchmark"},
    canonical=canonical_game,
    build=lambda game, size, protocol, evaluation: Craftax(game, size=size),
    extra="craftax",
    package="craftax",
)
