"""Tokenizer and world learning by turns (Robine et al., 2023)."""

from collections.abc import Iterator
from dataclasses import dataclass

from tokenworlds.core.progress import Phase
from tokenworlds.training.rounds import updating


@dataclass(frozen=True, slots=True)
class Alternation:
    """Epochs of `updates` of the world, with one of the tokenizer before every `interval` of them.

    Each epoch begins anew with the tokenizer, which also has its turn at the end of an epoch that
    the interval divides. An epoch of no updates has no turns either.
    """

    epochs: int
    updates: int
    interval: int

    @property
    def turns(self) -> int:
        """Updates of the tokenizer in all epochs."""
        return self.epochs * self._turns

    @property
    def _turns(self) -> int:
        return self.updates // self.interval + 1 if self.updates else 0

    def world(self, turns: int) -> int:
        """Updates of the world before the next turn of the tokenizer, after so many."""
        if not self._turns:
            return 0
        epochs, turn = divmod(turns, self._turns)
        return epochs * self.updates + turn * self.interval

    def phases(self, turns: int, learned: int) -> Iterator[Phase]:
        """What is left after so many turns of the tokenizer and updates of the world."""
        yield from updating("world", self.world(turns) - learned)
        for turn in range(turns, self.turns):
            yield Phase(0, {"tokenizer": 1})
            yield from updating("world", self.world(turn + 1) - self.world(turn))
