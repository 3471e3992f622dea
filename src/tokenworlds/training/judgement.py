"""How good the agent of a run is: games fixed by seeds, and the same games played at random."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tokenworlds.core.errors import UserError
from tokenworlds.core.seeding import derive
from tokenworlds.core.types import FrameShape
from tokenworlds.envs.spec import EnvSpec
from tokenworlds.evaluation.episodes import evaluate, evaluate_random
from tokenworlds.evaluation.player import Player
from tokenworlds.evaluation.results import Result, facts_by_name
from tokenworlds.training.job import build_player, progress_of
from tokenworlds.training.run_folder import RunFolder
from tokenworlds.training.schedule import Progress
from tokenworlds.training.spec import RunSpec


@dataclass(frozen=True, slots=True)
class Trained:
    """A player as a run's newest whole checkpoint has it, and what that says of replay.

    `told` holds a word on each checkpoint that is damaged.
    """

    player: Player
    progress: Progress
    told: tuple[str, ...]
    frame_shape: FrameShape
    replay: Mapping[str, Any]


def load_player(folder: RunFolder, spec: RunSpec) -> Trained:
    """The player of a run, without its replay and its optimisers."""
    found, told = folder.newest()
    if found is None:
        raise no_checkpoint(folder)
    torch.set_num_threads(spec.threads)
    env = spec.env.make(evaluation=True)
    player = build_player(spec.recipe, env.frame_shape, env.action_space, spec.precision)
    env.close()
    player.load_state_dict(dict(found.tensors["weights"]))
    player = player.to(spec.device)
    replay = found.state["replay"]
    return Trained(player, progress_of(found), tuple(told), env.frame_shape, replay)


def no_checkpoint(folder: RunFolder) -> UserError:
    """The error for a run of which there is nothing to go on from."""
    why = "all are damaged" if folder.has_checkpoints else "none was written yet"
    return UserError(f"{folder.path} holds no checkpoint that verifies: {why}")


def games_seed(seed: int, steps: int) -> int:
    """The seed of the games that a run of this seed is judged by, so many steps into it."""
    return derive(seed, "evaluation", steps)


def judge(
    player: Player,
    spec: RunSpec,
    progress: Progress,
    *,
    episodes: int,
    env: EnvSpec | None = None,
    seed: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Let the player and a random policy play; without another env or seed, those of the run."""
    env, seed = env or spec.env, spec.seed if seed is None else seed
    games: dict[str, Any] = {
        "episodes": episodes,
        "seed": games_seed(seed, progress.steps),
        "should_stop": should_stop,
    }
    temperature = spec.recipe.evaluation.temperature
    played = evaluate(player, env, temperature=temperature, **games)
    random = evaluate_random(env, **games)
    return Result(
        recipe=spec.recipe_name,
        size=spec.size,
        env=env.name,
        protocol=env.protocol,
        seed=seed,
        agent_steps=progress.steps,
        updates=progress.update_count,
        gradient_steps=progress.gradient_steps,
        temperature=temperature,
        returns=tuple(episode.score for episode in played),
        random_returns=tuple(episode.score for episode in random),
        facts=facts_by_name([episode.facts for episode in played]),
        random_facts=facts_by_name([episode.facts for episode in random]),
    )
