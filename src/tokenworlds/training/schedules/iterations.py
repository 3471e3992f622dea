"""The schedule of SimPLe (Kaiser et al., 2020) with the numbers of Robine et al. (2023)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.progress import Phase, Progress, round_up
from tokenworlds.training.schedules.rounds import Blocks, Rounds, collecting, updating


@dataclass(frozen=True, slots=True)
class Alternation:
    """Epochs of `updates` of the world, with one of the tokenizer before every `interval` of them.

    Each epoch starts with the tokenizer, which also gets an update at the end of an epoch that
    the interval divides. An epoch without updates of the world has none of the tokenizer.
    """

    epochs: int
    updates: int
    interval: int

    @property
    def tokenizer_updates(self) -> int:
        return self.epochs * self._per_epoch

    @property
    def _per_epoch(self) -> int:
        return self.updates // self.interval + 1 if self.updates else 0

    def world_updates(self, tokenizer_updates: int) -> int:
        """Updates of the world between this many updates of the tokenizer and the next one."""
        if not self._per_epoch:
            return 0
        epochs, within = divmod(tokenizer_updates, self._per_epoch)
        return epochs * self.updates + within * self.interval

    def phases(self, tokenizer_updates: int, world_updates: int) -> Iterator[Phase]:
        """The phases that are left after these updates."""
        yield from updating("world", self.world_updates(tokenizer_updates) - world_updates)
        for done in range(tokenizer_updates, self.tokenizer_updates):
            yield Phase(0, {"tokenizer": 1})
            yield from updating("world", self.world_updates(done + 1) - self.world_updates(done))


class Iterations(Rounds, Component):
    """In each iteration, collect, alternate tokenizer and world, then update the behaviour."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Iterations"]):
        """`steps` of an iteration; the first has `first_steps` (0: as many as the others).

        The first iteration acts at random and starts with `warm_up_updates` of the tokenizer.
        The tuples have one number per iteration, of which the last repeats: `epochs` of the
        world, `intervals` of world updates between two of the tokenizer, and `batches`, the
        updates of the behaviour. An epoch cuts the steps of each iteration, from a random offset,
        into sequences of `length`; one update takes `sequences` of them.
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
                raise ValueError(f"{self} is invalid: {wanted}")
            if min(self.first_steps, self.warm_up_updates, *self.epochs, *self.batches) < 0:
                raise ValueError(f"{self} is invalid: no number may be less than 0")
            if not (self.epochs and self.intervals and self.batches):
                raise ValueError(f"{self} is invalid: a tuple needs at least one number")

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
        return self._ends[rounds]

    def end_step(self, rounds: int) -> int:
        """Each iteration counts `steps`, so `evaluation.every=steps` evaluates at its end."""
        return rounds * self.config.steps

    def round_phases(self, done: int, progress: Progress) -> Iterator[Phase]:
        left, begin = progress.left(self.end(done + 1)), self.end(done).updates
        alternation, tokenizer_left = self.alternations[done], left.updates["tokenizer"]
        total = alternation.tokenizer_updates
        yield from collecting(left.steps // self.num_envs, random=done == 0)
        yield from updating("tokenizer", tokenizer_left - total)  # The warm-up.
        world_updates = progress.updates.get("world", 0) - begin["world"]
        yield from alternation.phases(max(total - tokenizer_left, 0), world_updates)
        yield from updating("behaviour", left.updates["behaviour"])

    def _alternations(self) -> Iterator[Alternation]:
        for done, updates in enumerate(self._updates()):
            epochs, interval = at(self.config.epochs, done), at(self.config.intervals, done)
            yield Alternation(epochs, updates, interval)

    def _updates(self) -> Iterator[int]:
        """Updates of the world in one epoch of each iteration, over all steps so far.

        The random offset costs each block, on average, all but one step of a sequence.
        """
        ends = [self.blocks.end(block) for block in range(self.rounds + 1)]
        cut = (max(end - begin - (self.config.length - 1), 0) for begin, end in pairwise(ends))
        for steps in accumulate(cut):
            yield -(-steps // (self.config.length * self.config.sequences))

    def _end_after(self, begin: Progress, done: int) -> Progress:
        alternation = self.alternations[done]
        first = self.config.warm_up_updates if done == 0 else 0
        due = {
            "tokenizer": first + alternation.tokenizer_updates,
            "world": alternation.world_updates(alternation.tokenizer_updates),
            "behaviour": at(self.config.batches, done),
        }
        updates = {name: begin.updates[name] + count for name, count in due.items()}
        return Progress(round_up(self.blocks.end(done + 1), self.num_envs), updates)


def at(numbers: Sequence[int], index: int) -> int:
    """The number at an index; the last one repeats."""
    return numbers[min(index, len(numbers) - 1)]
