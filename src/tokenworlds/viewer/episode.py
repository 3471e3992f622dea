"""A recorded episode, read step by step as the agent reads it, with what its world says of each."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tokenworlds.agent import Agent
from tokenworlds.core.capabilities import SamplesRandomTokens
from tokenworlds.core.errors import UserError
from tokenworlds.core.inspection import (
    AssessesStates,
    Assessment,
    HoldsTokens,
    Prediction,
    PredictsSteps,
)
from tokenworlds.core.seeding import torch_generator
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import Carry, Reconstruction, Segment, TokenFeature, to_frames
from tokenworlds.evaluation.dreams import to_uint8
from tokenworlds.evaluation.world.loops import expected_outcome
from tokenworlds.evaluation.world.scores import code_figures
from tokenworlds.viewer.comparison import has_parted, side_by_side
from tokenworlds.viewer.documents import describe_assessment, numbers, to_data_url
from tokenworlds.viewer.saliency import Reading, occlude_patches, swap_tokens
from tokenworlds.viewer.source import LONGEST, Source
from tokenworlds.worlds.real import Real

MOST_STEPS = 32
"""Steps of one answer: the page shows the first while the others are computed."""
SAMPLES = 4
WINDOWS, WINDOW = 32, 8
"""Windows of replay whose tokens are counted, and their steps."""


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What the world says of a step, beside the reading that it comes from."""

    reading: Reading
    assessment: Assessment | None
    prediction: Prediction | None
    index: Int[Tensor, " K"] | None
    decoded: Float[Tensor, "C H W"] | None
    norm: float | None


class Episode:
    """The episode that a page shows, and what was read of it so far."""

    def __init__(self, source: Source, seed: int = 0) -> None:
        self.source, self.agent = source, source.opened.agent
        self._rng = np.random.default_rng(seed)
        self._generator = torch_generator(seed, "viewer", device=str(self.agent.device))
        self._segment: Segment | None = None
        self._facts: list[StepFacts] = []

    def open(self, origin: str, number: int | None = None) -> dict[str, Any]:
        """An episode of replay (the newest without a number), or one that is played now."""
        episodes = self.source.episodes()
        if origin == "play":
            segment, number = self.source.played(int(self._rng.integers(2**31))).segment, None
        else:
            segment, number = self.source.episode(number)
        self._segment, self._facts = segment.to(self.agent.device), []
        sample = reconstruct(self.agent, self._segment.window(slice(0, WINDOW)))
        return {
            "length": segment.first.shape[1],
            "longest": LONGEST,
            "number": number,
            "episodes": len(episodes),
            "vocabulary": None if sample is None else sample.vocabulary,
            "grid": None if sample is None else sample.grid,
            "shades": sample is not None and sample.shades,
            "compares_random": isinstance(self.agent.world, SamplesRandomTokens),
        }

    def steps(self, begin: int, count: int) -> list[dict[str, Any]]:
        """What the page shows of some steps."""
        segment = self._opened()
        end = min(begin + min(count, MOST_STEPS), segment.first.shape[1])
        return [self._describe(time) for time in range(begin, end)]

    def _opened(self) -> Segment:
        if self._segment is None:
            raise UserError("no episode is open: open one first")
        return self._segment

    @torch.no_grad()
    def _read(self, time: int) -> StepFacts:
        segment = self._opened()
        if not 0 <= time < segment.first.shape[1]:
            raise UserError(f"the episode has the steps 0 to {segment.first.shape[1] - 1:,}")
        while len(self._facts) <= time:
            self._facts.append(self._read_next(segment, len(self._facts)))
        return self._facts[time]

    def _read_next(self, segment: Segment, time: int) -> StepFacts:
        agent, world = self.agent, self.agent.world
        before = self._facts[-1].reading if time else None
        action = segment.action[:, max(time - 1, 0)]
        reset = segment.first[:, time] | (time == 0)
        recent = segment.window(slice(max(time + 1 - max(world.frames, 2), 0), time + 1))
        prediction = None
        if before is not None and not bool(reset) and isinstance(world, PredictsSteps):
            following = recent.window(slice(-world.frames, None))
            prediction = world.predict(copied(before.carry), action, following)
        carry = world.observe(
            segment.frame[:, time], action, reset, before and copied(before.carry)
        )
        fresh = before is None or bool(reset)
        memory = agent.behaviour.initial(1) if fresh else before and before.memory_after
        assessment, after = None, memory
        view = world.view(carry)
        if isinstance(agent.behaviour, AssessesStates):
            assessment, after = agent.behaviour.assess(view, memory)
        index, decoded = self._tokens(carry, recent)
        reading = Reading(
            segment.frame[:, time], action, reset, before and before.carry, carry, memory, after
        )
        norm = None if isinstance(world, Real) else feature_norm(view)
        return StepFacts(reading, assessment, prediction, index, decoded, norm)

    def _tokens(self, carry: Carry, recent: Segment) -> tuple[Tensor | None, Tensor | None]:
        """The tokens of a step and the frame that they decode to, if there are any."""
        world = self.agent.world
        index = world.tokens_in(carry) if isinstance(world, HoldsTokens) else None
        if isinstance(world, HoldsTokens) and index is not None:
            known = int(index[0, 0]) >= 0
            return (index[0], world.view_with(carry, index).frame[0]) if known else (None, None)
        again = reconstruct(self.agent, recent)
        return (None, None) if again is None else (again.index[0, -1], again.frame[0, -1])

    @torch.no_grad()
    def _describe(self, time: int) -> dict[str, Any]:
        facts, segment = self._read(time), self._opened()
        frame = to_frames(segment.frame[0, time])
        nll = None if facts.prediction is None else token_nlls(facts.prediction)
        outcome = facts.prediction and expected_outcome(facts.prediction)
        decoded = facts.decoded
        terminates = facts.prediction is not None and facts.prediction.terminated is not None
        return {
            "step": time,
            "first": bool(facts.reading.reset),
            "frame": to_data_url(segment.frame[0, time].cpu().numpy()),
            "decoded": None if decoded is None else to_data_url(to_uint8(decoded)),
            "error": None if decoded is None else float((decoded - frame).abs().mean()),
            "tokens": None if facts.index is None else facts.index.tolist(),
            "nll": None if nll is None else numbers(nll),
            "action": segment.action[0, time].tolist(),
            # The outcome of the step before is predicted together with this frame.
            "reward": None if facts.reading.reset else float(segment.reward[0, time - 1]),
            "predicted_reward": outcome and float(outcome.reward[0]),
            "terminated": float(outcome.terminated[0]) if outcome and terminates else None,
            "norm": facts.norm,
            **describe_assessment(facts.assessment),
        }

    @torch.no_grad()
    def usage(self) -> dict[str, Any]:
        """How the tokens of the whole episode and of replay use the vocabulary."""
        segment = self._opened()
        self._read(segment.first.shape[1] - 1)
        index = [facts.index for facts in self._facts if facts.index is not None]
        sample = reconstruct(self.agent, segment.window(slice(0, WINDOW)))
        if not index or sample is None:
            raise UserError("this agent has no tokens to count")
        episode = torch.stack(index).cpu().numpy()
        replay = self.source.windows(WINDOWS, WINDOW, self._rng)
        again = None if replay is None else reconstruct(self.agent, replay)
        counted = None if again is None else again.index.flatten(0, 1).cpu().numpy()
        return {
            "episode": code_figures(episode, sample.vocabulary),
            "replay": None
            if counted is None
            else code_figures(counted[counted[:, 0] >= 0], sample.vocabulary),
            "counts": np.bincount(episode.ravel(), minlength=sample.vocabulary).tolist(),
        }

    @torch.no_grad()
    def random_changes(self, time: int) -> dict[str, Any]:
        """Frames after sampled tokens beside frames after random ones (Δ-IRIS, figure 3)."""
        world, segment = self.agent.world, self._opened()
        if not isinstance(world, SamplesRandomTokens):
            raise UserError("this world does not sample random tokens")
        self._read(time)
        if time == 0 or bool(segment.first[0, time]):
            raise UserError("no step of the episode leads to this one: choose a later one")
        before = self._facts[time - 1].reading.carry
        rows = map_tensors(lambda leaf: leaf.repeat_interleave(SAMPLES, 0), before)
        action = segment.action[:, time - 1].repeat_interleave(SAMPLES, 0)
        found = {}
        for name, step in (("sampled", world.step), ("random", world.step_with_random_tokens)):
            carry, _ = step(copied(rows), action, self._generator)
            found[name] = [to_data_url(each) for each in to_uint8(world.view(carry).frame)]
        return found

    @torch.no_grad()
    def saliency(self, time: int, way: str) -> dict[str, Any]:
        """How much the policy changes if one token is swapped, or one patch is occluded."""
        facts = self._read(time)
        if way == "patches":
            return occlude_patches(self.agent, facts.reading)
        seen = [each.index for each in self._facts if each.index is not None]
        return swap_tokens(self.agent, facts.reading, seen, self._rng)

    def side_by_side(self, start: int, steps: int) -> dict[str, Any]:
        """A dream from a step under the recorded actions, and the steps at which it parts.

        Frames are compared with the reconstruction: what the tokens cannot show is not the
        dream's fault.
        """
        segment = self._opened()
        dreamed = side_by_side(self.agent, segment, start, steps, self._generator)
        tokens = frames = None
        for each in dreamed:
            facts, pixels = self._read(each["step"]), each.pop("pixels")
            # Continuous latents have shades, which are no tokens.
            dreamt = each["tokens"] is not None
            real = facts.index.tolist() if facts.index is not None and dreamt else None
            shown = self._real(each["step"]) if facts.decoded is None else to_uint8(facts.decoded)
            each |= {"real_tokens": real, "decoded": to_data_url(shown)}
            each |= {"real": to_data_url(self._real(each["step"]))}
            each["real_reward"] = float(segment.reward[0, each["step"] - 1])
            if tokens is None and real is not None and each["tokens"] != real:
                tokens = each["step"]
            if frames is None and has_parted(pixels, shown):
                frames = each["step"]
        return {"steps": dreamed, "tokens_part": tokens, "frames_part": frames}

    def _real(self, time: int) -> Any:
        return self._opened().frame[0, time].cpu().numpy()


def copied(carry: Carry) -> Carry:
    """Caches are written in place; a reading must stay as it is."""
    return map_tensors(Tensor.clone, carry)


def reconstruct(agent: Agent, segment: Segment) -> Reconstruction | None:
    with torch.no_grad():
        return agent.world.reconstruct(segment)


def feature_norm(view: Any) -> float:
    """The norm of the vector that the world gives to its behaviour, without one-hots."""
    feature = view.make_feature()
    vector = feature.vector if isinstance(feature, TokenFeature) else feature
    return float(vector.flatten(1).norm(dim=1)[0])


def token_nlls(prediction: Prediction) -> Float[Tensor, " K"] | None:
    if prediction.index is None or prediction.log_probs is None:
        return None
    found = prediction.log_probs.gather(-1, prediction.index.unsqueeze(-1))
    return -found[0, :, 0]
