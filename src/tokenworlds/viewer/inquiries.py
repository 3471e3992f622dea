"""What a page may ask of an agent, and the answers as JSON."""

import traceback
from functools import cached_property
from typing import Any

import numpy as np

from tokenworlds.agent import OpenedAgent
from tokenworlds.core.errors import UserError
from tokenworlds.core.seeding import torch_generator
from tokenworlds.evaluation.world.held_out import HeldOut
from tokenworlds.runs.own_code import Trust
from tokenworlds.viewer.comparison import Horizon
from tokenworlds.viewer.documents import describe_agent
from tokenworlds.viewer.dream import Dream
from tokenworlds.viewer.episode import Episode
from tokenworlds.viewer.source import Source

ROWS, STEPS = 6, 64
"""Stretches of real steps that the dreams of a plot start from, and their length."""


class Inquiries:
    """The requests of one page. What they need of the agent is made by the first that needs it."""

    def __init__(self, opened: OpenedAgent, trust: Trust, seed: int = 0) -> None:
        self.opened, self._seed = opened, seed
        self.source = Source(opened, trust)
        self._horizon: Horizon | None = None

    @cached_property
    def dream(self) -> Dream:
        return Dream(self.source, self._seed)

    @cached_property
    def episode(self) -> Episode:
        return Episode(self.source, self._seed)

    def describe(self) -> dict[str, Any]:
        return describe_agent(self.opened, self.source.replay_steps)

    def answer(self, request: Any) -> dict[str, Any]:
        """What a request asks for, or the sentence why there is none."""
        try:
            return self.perform(request)
        except UserError as error:
            return {"kind": "problem", "problem": str(error)}
        except Exception as error:  # The page shows the reason; the log has the rest.
            traceback.print_exc()
            return {"kind": "problem", "problem": f"the agent failed: {error!r:.200}"}

    def perform(self, request: Any) -> dict[str, Any]:
        found = self._play(request) or self._inspect(request) or self._compare(request)
        if found is None:
            raise UserError("the page sent a request that this viewer does not know: load it again")
        return found

    def _play(self, request: Any) -> dict[str, Any] | None:
        """Requests of the dream player."""
        match request:
            case {
                "kind": "start",
                "source": "replay" | "reset" as source,
                "step": int() | None as step,
            }:
                return {"kind": "state", **self.dream.start(source, step)}
            case {"kind": "step", "from": int(number), "action": action}:
                return {"kind": "state", **self.dream.step(number, action)}
            case {"kind": "alternatives", "from": int(number), "action": action}:
                states = self.dream.alternatives(number, action)
                return {"kind": "alternatives", "from": number, "states": states}
        return None

    def _inspect(self, request: Any) -> dict[str, Any] | None:
        """Requests of the page of a recorded episode."""
        episode = self.episode
        match request:
            case {
                "kind": "episode",
                "origin": "replay" | "play" as origin,
                "number": int() | None as number,
            }:
                return {"kind": "episode", **episode.open(origin, number)}
            case {"kind": "steps", "from": int(begin), "count": int(count)}:
                return {"kind": "steps", "from": begin, "steps": episode.steps(begin, count)}
            case {"kind": "usage"}:
                return {"kind": "usage", **episode.usage()}
            case {"kind": "random", "step": int(step)}:
                return {"kind": "random", "step": step, **episode.random_changes(step)}
            case {"kind": "saliency", "step": int(step), "way": "tokens" | "patches" as way}:
                return {"kind": "saliency", "step": step, "way": way, **episode.saliency(step, way)}
        return None

    def _compare(self, request: Any) -> dict[str, Any] | None:
        """Requests of the page that shows dream and reality side by side."""
        match request:
            case {"kind": "compare", "start": int(start), "steps": int(steps)}:
                return {"kind": "compare", **self.episode.side_by_side(start, steps)}
            case {"kind": "horizon", "origin": "replay" | "play" as origin, "anew": bool(anew)}:
                if anew or self._horizon is None:
                    self._horizon = self._many_starts(origin)
                return {"kind": "horizon", **self._horizon.advance()}
        return None

    def _many_starts(self, origin: str) -> Horizon:
        rng = np.random.default_rng(self._seed)
        if origin == "play":
            held = self.source.played(int(rng.integers(2**31)), ROWS, STEPS)
        else:
            windows = self.source.windows(ROWS, STEPS, rng)
            if windows is None:
                raise UserError("this agent has no replay: play episodes instead")
            held = HeldOut(windows, 0)
        generator = torch_generator(self._seed, "horizon", device=str(self.opened.agent.device))
        return Horizon(self.opened.agent, held, generator, rng)
