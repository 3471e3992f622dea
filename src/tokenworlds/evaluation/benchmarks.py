"""Benchmarks: which environments, by which protocol, and what their score is.

Scores may be compared or aggregated if `differences` between their results is empty.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tokenworlds.core.errors import unknown
from tokenworlds.evaluation.results import Result

ATARI = (
    "Alien Amidar Assault Asterix BankHeist BattleZone Boxing Breakout ChopperCommand "
    "CrazyClimber DemonAttack Freeway Frostbite Gopher Hero Jamesbond Kangaroo Krull KungFuMaster "
    "MsPacman Pong PrivateEye Qbert RoadRunner Seaquest UpNDown"
)
CONTROL = (
    "acrobot-swingup ball_in_cup-catch cartpole-balance cartpole-balance_sparse cartpole-swingup "
    "cartpole-swingup_sparse cheetah-run finger-spin finger-turn_easy finger-turn_hard hopper-hop "
    "hopper-stand pendulum-swingup quadruped-run quadruped-walk reacher-easy reacher-hard "
    "walker-run walker-stand walker-walk"
)
MINATAR = "asterix breakout freeway seaquest space_invaders"


@dataclass(frozen=True, kw_only=True, slots=True)
class Protocol:
    """How a score of a benchmark comes about.

    `env` is the protocol of the environment. `steps` are agent steps of training, None if the
    recipe decides. `episodes` are those of the final agent; fewer make a score less certain, but
    not another one. Temperature None is the recipe's: it belongs to the agent.
    """

    env: str
    steps: int | None
    episodes: int
    temperature: float | None = None
    sticky: float = 0.0
    references: tuple[str, ...] = ()
    """Names of the sets of reference scores that returns are normalised with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """Environments with a protocol. Scores of its `variants`, other protocols of the same
    environments, are not comparable with its own."""

    name: str
    about: str
    tasks: tuple[str, ...]
    protocol: Protocol
    score: str
    variants: tuple[str, ...] = ()

    @property
    def frames(self) -> int | None:
        """Raw frames of training."""
        # Imported here because it needs torch, and reports do without.
        from tokenworlds.envs.catalogue import EnvSpec

        skip = EnvSpec(self.tasks[0], self.protocol.env).frame_skip
        return None if self.protocol.steps is None else self.protocol.steps * skip

    @property
    def family(self) -> str:
        """The family of the environments."""
        return self.tasks[0].partition(":")[0]

    def __str__(self) -> str:
        """One line for a list."""
        protocol, steps = self.protocol, "as many steps as the recipe trains"
        if protocol.steps is not None:
            raw = f" ({self.frames:,} frames)" if self.frames != protocol.steps else ""
            steps = f"{protocol.steps:,} agent steps{raw}"
        tasks = "1 task" if len(self.tasks) == 1 else f"{len(self.tasks)} tasks"
        return f"{tasks}, {steps}, {protocol.episodes} episodes; score: {self.score}"


FOUND = (
    Benchmark(
        name="atari100k",
        about="26 Atari games after two hours of play",
        tasks=tuple(f"atari:{game}" for game in ATARI.split()),
        protocol=Protocol(
            env="atari100k", steps=100_000, episodes=100, references=("exact", "rounded")
        ),
        score="mean return of a game, normalised by random and human scores over games",
        variants=("atari100k-sticky", "drama", "storm", "swm"),
    ),
    Benchmark(
        name="crafter-1m",
        about="survival with 22 achievements",
        tasks=("crafter",),
        protocol=Protocol(env="crafter-1m", steps=1_000_000, episodes=256),
        score="mean return, Crafter score and success rate of each achievement",
    ),
    Benchmark(
        name="dmc-vision",
        about="20 tasks of DeepMind Control from pixels",
        tasks=tuple(f"dmc:{task}" for task in CONTROL.split()),
        protocol=Protocol(env="dmc-vision", steps=500_000, episodes=20),
        score="mean return, at most 1000",
        variants=("dmc-vision-flat",),
    ),
    Benchmark(
        name="minatar",
        about="miniatures of five Atari games",
        tasks=tuple(f"minatar:{game}" for game in MINATAR.split()),
        protocol=Protocol(env="minatar", steps=None, episodes=100),
        score="mean return",
        variants=("minatar-sticky",),
    ),
    Benchmark(
        name="toys",
        about="the built-in games",
        tasks=("toy:catch", "toy:steer"),
        protocol=Protocol(env="toy", steps=None, episodes=100),
        score="mean return, beside the best possible",
    ),
)
BENCHMARKS: Mapping[str, Benchmark] = {found.name: found for found in FOUND}


def benchmark(name: str) -> Benchmark:
    if name not in BENCHMARKS:
        raise unknown("benchmark", name, BENCHMARKS)
    return BENCHMARKS[name]


def benchmark_of(env: str, protocol: str) -> Benchmark | None:
    """The benchmark that an environment belongs to with this protocol, its variants apart."""
    found = (each for each in FOUND if env in each.tasks and protocol == each.protocol.env)
    return next(found, None)


def task_of(env: str) -> str:
    """The name of an environment within its benchmark, as tables of papers write it: `Pong`."""
    family, _, game = env.partition(":")
    return game or family


def deviations(result: Result) -> list[str]:
    """Where a result does less or more than its benchmark asks for, a phrase each."""
    found = benchmark_of(result.env, result.protocol)
    if found is None:
        return []
    steps, episodes = found.protocol.steps, found.protocol.episodes
    phrases = []
    if steps is not None and result.agent_steps != steps:
        phrases.append(f"{result.agent_steps:,} agent steps instead of {steps:,}")
    if len(result.returns) < episodes:
        phrases.append(f"{len(result.returns)} episodes instead of {episodes}")
    return phrases


def differences(one: Result, other: Result) -> list[str]:
    """What the protocols of two results do not share, a phrase each; empty if comparable.

    Episodes and temperature may differ: they belong to the evaluation and to the agent.
    """
    return list(find_differences(one, other))


def find_differences(one: Result, other: Result) -> Iterator[str]:
    families = [result.env.partition(":")[0] for result in (one, other)]
    if families[0] != families[1]:
        yield f"environments of {families[0]} and {families[1]}"
    if one.protocol != other.protocol:
        yield f"protocols {one.protocol} and {other.protocol}"
    if one.agent_steps != other.agent_steps:
        yield f"{one.agent_steps:,} and {other.agent_steps:,} agent steps"
