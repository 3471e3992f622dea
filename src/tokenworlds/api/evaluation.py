"""Episodes of an agent, and their returns."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from tokenworlds.agent import Agent as AgentModule
from tokenworlds.core.errors import UserError
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.evaluation import processes as workers
from tokenworlds.evaluation.episodes import evaluate, evaluation_seed
from tokenworlds.evaluation.results import action_selection, score_of


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The returns and lengths of whole games, and how they were played."""

    returns: Float[np.ndarray, " N"]
    lengths: Int[np.ndarray, " N"]
    env: str
    protocol: str
    seed: int
    temperature: float

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        return float(self.returns.std())

    def __str__(self) -> str:
        """The mean with its standard error."""
        score = score_of(self.returns.tolist())
        how = f"protocol {self.protocol}, {action_selection(self.temperature)}"
        return f"{score} over {score.episodes} episodes of {self.env}, {how}"


def play(
    module: AgentModule,
    env: EnvSpec,
    *,
    episodes: int,
    seed: int,
    steps: int,
    temperature: float,
    processes: int | None,
) -> EvaluationResult:
    """Play the games of a final evaluation after this many agent steps."""
    if episodes < 1:
        raise UserError(f"evaluate takes 1 episode or more, not {episodes}")
    (played,) = evaluate(
        [module],
        env,
        episodes=episodes,
        seed=evaluation_seed(seed, steps, final=True),
        temperature=temperature,
        processes=processes or workers.cores(),
    )
    returns = np.array([episode.score for episode in played])
    lengths = np.array([episode.length for episode in played])
    return EvaluationResult(returns, lengths, env.name, env.protocol, seed, temperature)
