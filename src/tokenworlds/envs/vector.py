"""Many environments at once, as a collector wants them: always at a frame, never to be reset.

A game that is over is followed at once by the next one of its stream, so the frame in view is
then the first of the new game. The seed of each game follows from the seed of the whole, the
stream and the number of the game.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Bool, UInt8
from numpy.typing import NDArray

from tokenworlds.envs.serial import Finished, Outcome, Sight
from tokenworlds.envs.spec import EnvSpec
from tokenworlds.envs.workers import Here, Worker

__all__ = ["Finished", "Outcome", "VectorEnv"]


class VectorEnv:
    """Several copies of one environment. Trajectories do not depend on the number of workers."""

    def __init__(
        self,
        spec: EnvSpec,
        *,
        num_envs: int,
        seed: int,
        evaluation: bool = False,
        workers: int = 0,
    ) -> None:
        """Without workers the environments run in this process, one after the other."""
        self._parts = np.array_split(np.arange(num_envs), max(1, min(workers, num_envs)))
        place: Callable[..., Here | Worker] = Worker if workers else Here
        self._places = [place(spec, part.tolist(), seed, evaluation) for part in self._parts]
        self._finished: list[Finished] = []
        self._restarted = np.zeros(num_envs, bool)
        self.frame_shape, self.action_space = self._ask_all("spaces")[0]
        self._sight = _join_sights(self._ask_all("look"))

    def __len__(self) -> int:
        return len(self._restarted)

    @property
    def frames(self) -> UInt8[np.ndarray, "N H W C"]:
        """The frame in view in each stream; later steps leave it as it is."""
        return self._sight.frames

    @property
    def first(self) -> Bool[np.ndarray, " N"]:
        """Where the frame in view opens an episode: a new game, or a new life in training."""
        return self._sight.first

    @property
    def restarted(self) -> Bool[np.ndarray, " N"]:
        """Where the game in view replaces one that `restore` could not replay.

        Such a stream's last step has neither ending nor truncation, yet the next frame opens an
        episode. True until the next step.
        """
        return self._restarted

    def step(self, actions: NDArray[Any]) -> Outcome:
        """Execute one action in each stream and begin the next game where one is over."""
        if len(actions) != len(self):
            raise ValueError(f"{len(actions)} actions for {len(self)} environments")
        answers = self._ask_each("step", [actions[part] for part in self._parts])
        outcomes, sights, finished = zip(*answers, strict=True)
        self._sight = _join_sights(sights)
        self._finished += itertools.chain.from_iterable(finished)
        self._restarted = np.zeros(len(self), bool)
        return _join_outcomes(outcomes)

    def finished(self) -> list[Finished]:
        """The games that came to be over since the last call."""
        games, self._finished = self._finished, []
        return games

    def state(self) -> dict[str, Any]:
        """All that `restore` needs, as JSON; the running games are kept as their actions."""
        num_envs = itertools.chain.from_iterable(self._ask_all("state"))
        return {"num_envs": list(num_envs), "finished": [asdict(game) for game in self._finished]}

    def restore(self, state: Mapping[str, Any]) -> list[str]:
        """Replay the running games of a saved state; returns what went wrong, in words.

        A game that does not come out as it was saved is given up for the next one of its stream.
        """
        saved = state["num_envs"]
        if len(saved) != len(self):
            raise ValueError(f"a state of {len(saved)} environments for {len(self)} environments")
        parts = [[saved[stream] for stream in part] for part in self._parts]
        complaints = list(itertools.chain.from_iterable(self._ask_each("restore", parts)))
        self._finished = [Finished(**game) for game in state["finished"]]
        self._restarted = np.array([complaint is not None for complaint in complaints])
        self._sight = _join_sights(self._ask_all("look"))
        return [complaint for complaint in complaints if complaint is not None]

    def close(self) -> None:
        """Close all environments and end the workers."""
        for place in self._places:
            place.close()
        self._places = []

    def __enter__(self) -> "VectorEnv":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _ask_all(self, method: str) -> list[Any]:
        return self._ask(method, [() for _ in self._places])

    def _ask_each(self, method: str, arguments: list[Any]) -> list[Any]:
        return self._ask(method, [(argument,) for argument in arguments])

    def _ask(self, method: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        """The answers of all places; all are asked before the first is waited for."""
        if not self._places:
            raise RuntimeError("these environments are closed")
        try:
            for place, given in zip(self._places, arguments, strict=True):
                place.ask(method, *given)
            return [place.answer() for place in self._places]
        except BaseException:
            # Some environments may have moved on while others have not, and answers that nobody
            # fetched would be taken for those to the next question.
            self.close()
            raise


def _join_sights(sights: list[Sight] | tuple[Sight, ...]) -> Sight:
    frames = np.concatenate([sight.frames for sight in sights])
    return Sight(frames, np.concatenate([sight.first for sight in sights]))


def _join_outcomes(outcomes: tuple[Outcome, ...]) -> Outcome:
    names = ("reward", "terminated", "truncated", "over")
    columns = [[getattr(outcome, name) for outcome in outcomes] for name in names]
    return Outcome(*(np.concatenate(column) for column in columns))
