"""In which order steps are collected and learners updated.

`Epochs` is the manner of IRIS (Micheli et al., 2023) and of Δ-IRIS (2024), `Iterations` that of
SimPLe (Kaiser et al., 2020) with the numbers of Smaller World Models (Robine et al., 2023).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from tokenworlds.core.clocks import Ratio
from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import unknown
from tokenworlds.core.progress import Phase, Progress
from tokenworlds.training.alternation import Alternation
from tokenworlds.training.rounds import Blocks, Rounds, collecting, round_up, updating


class Interleaved(Component):
    """A step of every stream, then the updates that are due; random play before the first."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Interleaved"]):
        """Choices: `updates` of each learner per agent step after the warm-up."""

        warm_up: int = 1032
        updates: Mapping[str, float] = field(default_factory=dict)

    def __init__(self, config: Config, *, num_envs: int, total: int) -> None:
        self.config = config
        self.num_envs = num_envs
        self.steps = round_up(total, num_envs)

    @property
    def goal(self) -> Progress:
        """All steps, and the updates that are due then."""
        return Progress(self.steps, self._due(self.steps, {}))

    def phases(self, progress: Progress) -> Iterator[Phase]:
        """The warm-up as one phase, then one phase for each step of the environments."""
        steps, done = progress.steps, dict(progress.updates)
        warm = min(round_up(self.config.warm_up, self.num_envs), self.steps)
        if steps < warm:
            yield Phase((warm - steps) // self.num_envs, {}, random=True)
            steps = warm
        while steps < self.steps:
            steps += self.num_envs
            due = self._due(steps, done)
            done = {name: done.get(name, 0) + count for name, count in due.items()}
            yield Phase(1, due)

    def age(self, progress: Progress) -> int:
        """The steps themselves."""
        return progress.steps

    def _due(self, steps: int, done: Mapping[str, int]) -> dict[str, int]:
        learned = steps - self.config.warm_up
        return {
            name: Ratio(per_step).due(learned, done.get(name, 0))
            for name, per_step in self.config.updates.items()
        }


class Epochs(Rounds, Component):
    """Steps of all environments, then the updates of one learner after the other, over and over."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Epochs"]):
        """`steps` of all environments together and `updates` of each learner, in their order.

        The first epoch may have another number of steps (0 is the same), and random play. When
        all steps of the run are collected, `final_epochs` without any follow. A learner may wait
        until so many epochs are over, and make `first_updates` in the first of its own.
        """

        steps: int = 200
        first_steps: int = 0
        random_first: bool = False
        final_epochs: int = 0
        updates: Mapping[str, int] = field(default_factory=dict)
        start_after: Mapping[str, int] = field(default_factory=dict)
        first_updates: Mapping[str, int] = field(default_factory=dict)

        def __post_init__(self) -> None:
            counts = (self.updates, self.start_after, self.first_updates)
            numbers = [n for named in counts for n in named.values()]
            if self.steps < 1 or min(self.first_steps, self.final_epochs, *numbers) < 0:
                raise ValueError(f"{self} is no plan: steps takes 1 or more, the others 0 or more")
            for name in (*self.start_after, *self.first_updates):
                if name not in self.updates:
                    raise unknown("learner of the epochs", name, self.updates)

    def __init__(self, config: Config, *, num_envs: int, total: int) -> None:
        self.config = config
        self.num_envs = num_envs
        self.blocks = Blocks(config.steps, config.first_steps, total)
        self.rounds = self.blocks.count + config.final_epochs

    def end(self, rounds: int) -> Progress:
        """All steps up to the end of an epoch, and all updates."""
        updates = {name: self._updates(name, rounds) for name in self.config.updates}
        return Progress(round_up(self.blocks.end(rounds), self.num_envs), updates)

    def ended(self, rounds: int) -> int:
        """The steps themselves; an epoch without any counts like the others."""
        final = max(rounds - self.blocks.count, 0)
        return self.end(rounds).steps + final * self.config.steps

    def turn(self, done: int, progress: Progress) -> Iterator[Phase]:
        """Collecting, then one learner after the other."""
        left = progress.left(self.end(done + 1))
        random = self.config.random_first and done == 0
        yield from collecting(left.steps // self.num_envs, random)
        for name, due in left.updates.items():
            yield from updating(name, due)

    def _updates(self, learner: str, epochs: int) -> int:
        """Updates of a learner in so many epochs."""
        each = self.config.updates[learner]
        first = self.config.first_updates.get(learner, each)
        trained = max(epochs - self.config.start_after.get(learner, 0), 0)
        return first + (trained - 1) * each if trained else 0


class Iterations(Rounds, Component):
    """Steps, then tokenizer and world by turns, then the behaviour alone, over and over."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Iterations"]):
        """Choices: `steps` of an iteration; the first may have another number (0 is the same).

        It plays at random, and makes `warm_up_updates` of the tokenizer before all else. For each
        iteration, the last number holding for all after it: the `epochs` of the world, the
        `intervals` of its updates from one of the tokenizer to the next, and the `batches`, which
        are updates of the behaviour. An epoch cuts each iteration's steps from a random place on
        into sequences of a `length`, and shows the world so many in an update.
        """

        steps: int = 6_400
        first_steps: int = 12_800
        warm_up_updates: int = 16_000
        epochs: tuple[int, ...] = (140, 32, 24, 20, 16, 14, 12, 11, 10, 9, 8, 8, 7, 7, 6)
        sequences: int = 4
        length: int = 11
        intervals: tuple[int, ...] = (2, 2, 3)
        batches: tuple[int, ...] = (*[1000] * 7, 2000, *[1000] * 3, 2000, *[1000] * 2, 3000)

        def __post_init__(self) -> None:
            if min(self.steps, self.sequences, self.length, *self.intervals) < 1:
                wanted = "steps, sequences, length and intervals take 1 or more"
                raise ValueError(f"{self} is no plan: {wanted}")
            if min(self.first_steps, self.warm_up_updates, *self.epochs, *self.batches) < 0:
                raise ValueError(f"{self} is no plan: nothing is less than 0")
            if not (self.epochs and self.intervals and self.batches):
                raise ValueError(f"{self} is no plan: an iteration needs a number of each")

    def __init__(self, config: Config, *, num_envs: int, total: int) -> None:
        self.config = config
        self.num_envs = num_envs
        self.blocks = Blocks(config.steps, config.first_steps, total)
        self.rounds = self.blocks.count
        self.alternations = list(self._alternations())
        self._ends = [Progress(0, {"tokenizer": 0, "world": 0, "behaviour": 0})]
        for done in range(self.rounds):
            self._ends.append(self._end_after(self._ends[-1], done))

    def end(self, rounds: int) -> Progress:
        """All steps up to the end of an iteration, and all updates."""
        return self._ends[rounds]

    def ended(self, rounds: int) -> int:
        """Each iteration counts `steps`, so that what is done as often is done at its end."""
        return rounds * self.config.steps

    def turn(self, done: int, progress: Progress) -> Iterator[Phase]:
        """Collecting, the warm-up of the tokenizer, its alternation with the world, behaviour."""
        left, begin = progress.left(self.end(done + 1)), self.end(done).updates
        alternation = self.alternations[done]
        yield from collecting(left.steps // self.num_envs, random=done == 0)
        yield from updating("tokenizer", left.updates["tokenizer"] - alternation.turns)
        turns = max(alternation.turns - left.updates["tokenizer"], 0)
        yield from alternation.phases(turns, progress.updates.get("world", 0) - begin["world"])
        yield from updating("behaviour", left.updates["behaviour"])

    def _alternations(self) -> Iterator[Alternation]:
        for done, updates in enumerate(self._updates()):
            epochs, interval = at(self.config.epochs, done), at(self.config.intervals, done)
            yield Alternation(epochs, updates, interval)

    def _updates(self) -> Iterator[int]:
        """Updates of the world in one epoch of each iteration, over all that was collected.

        A random place to cut from costs a block, on average, all but one step of a sequence.
        """
        ends = [self.blocks.end(block) for block in range(self.rounds + 1)]
        cut = (max(end - begin - (self.config.length - 1), 0) for begin, end in pairwise(ends))
        for steps in accumulate(cut):
            yield -(-steps // (self.config.length * self.config.sequences))

    def _end_after(self, begin: Progress, done: int) -> Progress:
        alternation = self.alternations[done]
        first = self.config.warm_up_updates if done == 0 else 0
        due = {
            "tokenizer": first + alternation.turns,
            "world": alternation.world(alternation.turns),
            "behaviour": at(self.config.batches, done),
        }
        updates = {name: begin.updates[name] + count for name, count in due.items()}
        return Progress(round_up(self.blocks.end(done + 1), self.num_envs), updates)


def at(numbers: Sequence[int], place: int) -> int:
    """The number at a place; the last one holds for all after it."""
    return numbers[min(place, len(numbers) - 1)]
