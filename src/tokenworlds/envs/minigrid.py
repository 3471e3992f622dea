"""MiniGrid and BabyAI (Chevalier-Boisvert et al., 2023): small tasks in rooms of cells."""

from collections.abc import Mapping
from typing import Any

import gymnasium

from tokenworlds.envs.game import Family, match_name
from tokenworlds.envs.gym import Gym, prepare_rendering
from tokenworlds.envs.options import EnvOptions

PREFIX = "MiniGrid-"
PREFIXES = (PREFIX, "BabyAI-")
TILE = 8
"""Pixels of a cell, the default of MiniGrid's own wrappers."""
PROTOCOLS: Mapping[str, str] = {
    "minigrid": "7 x 7 cells that the agent sees, as pixels; the mission's text is not shown",
    "minigrid-full": "the whole grid as pixels; the mission's text is not shown",
}


def build(game: str, size: int, protocol: str, evaluation: bool) -> Gym:
    prepare_rendering()
    import minigrid  # noqa: F401
    from minigrid.wrappers import RGBImgObsWrapper, RGBImgPartialObsWrapper

    wrapper = RGBImgObsWrapper if protocol == "minigrid-full" else RGBImgPartialObsWrapper
    made: gymnasium.Env[Any, Any] = gymnasium.make(full_id(game), disable_env_checker=True)
    seen = wrapper(made, tile_size=TILE)
    options = EnvOptions(image_key="image")
    return Gym(seen, name=f"minigrid:{game}", size=size, options=options)


def full_id(game: str) -> str:
    return game if game.startswith(PREFIXES) else f"{PREFIX}{game}"


def canonical_game(game: str) -> str:
    """The id without `MiniGrid-`; its version may be left out."""
    prepare_rendering()
    import minigrid  # noqa: F401

    names = [name.removeprefix(PREFIX) for name in gymnasium.registry if name.startswith(PREFIXES)]
    aliases = {plain_id(name): name for name in names}
    return aliases.get(plain_id(game)) or match_name("MiniGrid task", game, names)


def plain_id(name: str) -> str:
    return name.removeprefix(PREFIX).removesuffix("-v0").lower()


FAMILY = Family(
    name="minigrid",
    about="MiniGrid and BabyAI: small tasks in rooms, from a partial view",
    examples=("minigrid:DoorKey-5x5-v0", "minigrid:MemoryS7-v0", "minigrid:BabyAI-GoToObj-v0"),
    protocols=PROTOCOLS,
    canonical=canonical_game,
    build=build,
    extra="minigrid",
    package="minigrid",
)
