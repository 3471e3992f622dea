"""The schedule of IRIS (Micheli et al., 2023) and Δ-IRIS (2024)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import unknown
from tokenworlds.core.progress import Phase, Progress, round_up
from tokenworlds.training.schedules.rounds import Blocks, Rounds, collecting, updating


class Epochs(Rounds, Component):
    """In each epoch, collect steps, then update one learner after the other."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Epochs"]):
        """`steps` of all environments together and `updates` of each learner, in this order.

        The first epoch collects `first_steps` (0: as many as the others), with random actions if
        `random_first`. After all steps of the run, `final_epochs` only update. A learner with
        `start_after` skips that many epochs; its first epoch may have its own `first_updates`.
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
                raise ValueError(f"{self} is invalid: steps takes 1 or more, the others 0 or more")
            for name in (*self.start_after, *self.first_updates):
                if name not in self.updates:
                    raise unknown("learner of the epochs", name, self.updates)

    def __init__(self, config: Config, *, num_envs: int, total: int) -> None:
        self.config = config
        self.num_envs = num_envs
        self.blocks = Blocks(config.steps, config.first_steps, total)
        self.rounds = self.blocks.count + config.final_epochs

    def end(self, rounds: int) -> Progress:
        updates = {name: self._updates(name, rounds) for name in self.config.updates}
        return Progress(round_up(self.blocks.end(rounds), self.num_envs), updates)

    def end_step(self, rounds: int) -> int:
        """The agent steps; a final epoch counts `steps`, although it collects none."""
        final = max(rounds - self.blocks.count, 0)
        return self.end(rounds).steps + final * self.config.steps

    def round_phases(self, done: int, progress: Progress) -> Iterator[Phase]:
        left = progress.left(self.end(done + 1))
        random = self.config.random_first and done == 0
        yield from collecting(left.steps // self.num_envs, random)
        for name, due in left.updates.items():
            yield from updating(name, due)

    def _updates(self, learner: str, epochs: int) -> int:
        """Updates of a learner in the first `epochs` epochs."""
        each = self.config.updates[learner]
        first = self.config.first_updates.get(learner, each)
        trained = max(epochs - self.config.start_after.get(learner, 0), 0)
        return first + (trained - 1) * each if trained else 0
