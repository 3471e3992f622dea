"""How good the agent of a run is: games fixed by seeds, and the same games played at random."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tokenworlds.agent import Agent
from tokenworlds.core.progress import Progress
from tokenworlds.core.seeding import derive
from tokenworlds.envs.spec import EnvSpec
from tokenworlds.evaluation.episodes import evaluate, evaluate_random
from tokenworlds.evaluation.results import Result, facts_by_name
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.job import progress_of


@dataclass(frozen=True, slots=True)
class Trained:
    """A agent as a run's newest whole checkpoint has it, and what that says of replay.

    `told` holds a word on each checkpoint that is damaged.
    """

    agent: Agent
    progress: Progress
    told: tuple[str, ...]
    replay: Mapping[str, Any]


def load_agent(folder: RunFolder, spec: RunSpec) -> Trained:
    """The agent of a run, without its replay and its optimisers."""
    found, told = folder.newest()
    if found is None:
        raise folder.no_checkpoint()
    agent = Agent.restore(spec, found.tensors["weights"])
    return Trained(agent, progress_of(found), tuple(told), found.state["replay"])


def games_seed(seed: int, steps: int) -> int:
    """The seed of the games that a run of this seed is judged by, so many steps into it."""
    return derive(seed, "evaluation", steps)


def judge(
    agent: Agent,
    spec: RunSpec,
    progress: Progress,
    *,
    episodes: int,
    env: EnvSpec | None = None,
    seed: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Let the agent and a random policy play; without another env or seed, those of the run."""
    env, seed = env or spec.env, spec.seed if seed is None else seed
    games: dict[str, Any] = {
        "episodes": episodes,
        "seed": games_seed(seed, progress.steps),
        "should_stop": should_stop,
    }
    temperature = spec.recipe.evaluation.temperature
    played = evaluate(agent, env, temperature=temperature, **games)
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
