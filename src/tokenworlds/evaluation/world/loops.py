"""Predictions of held-out steps.

Closed loop (teacher-forced): each step is predicted from all real steps before it. Open loop: the
world imagines on under the recorded actions, and sees no frame after its context.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Generator, Tensor

from tokenworlds.agent import Agent
from tokenworlds.core.inspection import AssessesStates, Assessment, Prediction, PredictsSteps
from tokenworlds.core.precision import computing
from tokenworlds.core.protocols import World
from tokenworlds.core.trees import where_rows
from tokenworlds.core.types import Carry, Outcome, Segment
from tokenworlds.evaluation.dreams import to_uint8
from tokenworlds.evaluation.episodes import random_actions
from tokenworlds.evaluation.world.held_out import HeldOut, gather_before
from tokenworlds.heads.outcomes import Sign

Numbers = Float[np.ndarray, "rows steps"]
Places = Int[np.ndarray, "W 2"]
"""Row and step."""
ROWS = 16
"""Windows that are imagined at once."""


@dataclass(frozen=True, slots=True)
class TokenScores:
    """One number per step; NaN where there is none.

    `accuracy` is the share of tokens whose likeliest prediction is right, `frame` is 1 if all are,
    `nll` is nats per token. `kl` is that of the posterior from the prior in nats per frame,
    `posterior` and `prior` are entropies in nats per token. `changed` counts the tokens that differ
    from those of the frame before, `changed_right` those of them that are predicted.
    """

    accuracy: Numbers
    frame: Numbers
    nll: Numbers
    kl: Numbers
    posterior: Numbers
    prior: Numbers
    changed: Numbers
    changed_right: Numbers


@dataclass(frozen=True, slots=True)
class Predicted:
    """What was predicted for each step: its reward, its termination and the frame after it.

    `signed`: the world predicts the sign of rewards. `terminates`: it predicts terminations.
    """

    frame: UInt8[np.ndarray, "rows steps H W C"]
    reward: Numbers
    terminated: Numbers
    tokens: TokenScores
    signed: bool
    terminates: bool


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """`value` and `entropy` are those of the behaviour in each state; NaN if it does not tell.

    `probabilities` are those of discrete actions, with one axis more; None if they are not known.
    `nll_at_random` is the tokens' negative log-likelihood after a random action instead.
    """

    predicted: Predicted
    value: Numbers
    entropy: Numbers
    probabilities: Float[np.ndarray, "rows steps A"] | None
    nll_at_random: Numbers


@dataclass(slots=True)
class Recorder:
    """Collects what is predicted step by step."""

    frames: list[UInt8[np.ndarray, "rows H W C"]]
    numbers: list[dict[str, Tensor]]
    signed: bool = False
    terminates: bool = True
    tokens: Int[Tensor, "B K"] | None = None

    @torch.no_grad()
    def imagine(
        self, world: World, carry: Carry, action: Tensor, following: Segment, generator: Generator
    ) -> Carry:
        """Predict the step after a state, imagine it, and return the imagined state."""
        prediction = (
            world.predict(carry, action, following) if isinstance(world, PredictsSteps) else None
        )
        carry, outcome = world.step(carry, action, generator)
        if prediction is not None:
            outcome = expected_outcome(prediction)
            self.signed = isinstance(prediction.reward, Sign)
            self.terminates = prediction.terminated is not None
        numbers = {"reward": outcome.reward, "terminated": outcome.terminated}
        self.frames.append(to_uint8(world.view(carry).frame))
        scores = token_scores(prediction, len(outcome.reward))
        # Where tokens stand for changes, those of two steps cannot be compared.
        if prediction is not None and not getattr(world, "token_context", 0):
            scores |= changed_scores(prediction, self.tokens)
            self.tokens = prediction.index
        self.numbers.append({**numbers, **scores})
        return carry

    def stack(self) -> Predicted:
        tokens = TokenScores(*(self.column(field.name) for field in fields(TokenScores)))
        return Predicted(
            np.stack(self.frames, 1),
            self.column("reward"),
            self.column("terminated"),
            tokens,
            self.signed,
            self.terminates,
        )

    def column(self, name: str) -> Numbers:
        return torch.stack([each[name] for each in self.numbers], 1).double().cpu().numpy()


def expected_outcome(prediction: Prediction) -> Outcome:
    """The mean reward, and the probability of termination without the discount."""
    reward = prediction.reward.mean
    if prediction.terminated is None:
        return Outcome(reward, torch.zeros_like(reward))
    chance = 1 - (1 - prediction.terminated.mean) / prediction.discount
    return Outcome(reward, chance.clamp(0, 1).to(reward.dtype))


def token_scores(prediction: Prediction | None, rows: int) -> dict[str, Tensor]:
    scores = {field.name: torch.full((rows,), torch.nan) for field in fields(TokenScores)}
    if prediction is None or prediction.index is None or prediction.log_probs is None:
        return scores
    log_probs, index = prediction.log_probs, prediction.index
    hit = (log_probs.argmax(dim=-1) == index).float()
    scores["accuracy"], scores["frame"] = hit.mean(-1), hit.amin(-1)
    scores["nll"] = token_nll(prediction)
    scores["prior"] = entropy(log_probs).mean(-1)
    if prediction.posterior is not None:
        posterior = prediction.posterior
        scores["kl"] = (posterior.exp() * (posterior - log_probs)).sum((-1, -2))
        scores["posterior"] = entropy(posterior).mean(-1)
    return scores


def changed_scores(prediction: Prediction, before: Int[Tensor, "B K"] | None) -> dict[str, Tensor]:
    if before is None or prediction.index is None or prediction.log_probs is None:
        return {}
    changed = prediction.index != before
    right = (prediction.log_probs.argmax(dim=-1) == prediction.index) & changed
    return {"changed": changed.float().sum(-1), "changed_right": right.float().sum(-1)}


def token_nll(prediction: Prediction) -> Float[Tensor, " B"]:
    assert prediction.index is not None
    assert prediction.log_probs is not None
    found = prediction.log_probs.gather(-1, prediction.index.unsqueeze(-1))
    return -found.squeeze(-1).mean(-1)


def entropy(log_probs: Float[Tensor, "*rest V"]) -> Float[Tensor, "*rest"]:
    return -(log_probs.exp() * log_probs).sum(-1)


@torch.no_grad()
def closed_loop(agent: Agent, held: HeldOut, generator: Generator) -> ClosedLoop:
    """Walk through the held-out steps as the agent did, and predict each from those before."""
    world, segment = agent.world, held.segment
    rows, length = segment.first.shape
    recorder, assessed, at_random = Recorder([], []), list[Assessment](), list[Tensor]()
    carry, memory = None, agent.behaviour.initial(rows)
    for time in range(length):
        frame, first, action, last = (
            part.to(agent.device)
            for part in (
                segment.frame[:, time],
                segment.first[:, time],
                segment.action[:, time],
                segment.action[:, max(time - 1, 0)],
            )
        )
        reset = first | (time == 0)
        with computing(agent.device, agent.precision):
            carry = world.observe(frame, last, reset, carry, generator)
            memory = where_rows(reset, agent.behaviour.initial(rows), memory)
            state, memory = assess(agent, carry, memory, rows)
            following = latest(held, time + 1, world.frames).to(agent.device)
            at_random.append(score_random_action(agent, carry, following, generator))
            recorder.imagine(world, carry, action, following, generator)
        assessed.append(state)
    policies = [each.policy.mean for each in assessed if each.policy is not None]
    known = agent.action_space.discrete and len(policies) == length
    return ClosedLoop(
        recorder.stack(),
        value=by_time([each.value for each in assessed]),
        entropy=by_time([each.entropy for each in assessed]),
        probabilities=by_time(policies) if known else None,
        nll_at_random=by_time(at_random),
    )


def by_time(numbers: Sequence[Tensor]) -> Float[np.ndarray, "rows steps *rest"]:
    return torch.stack(list(numbers), 1).double().cpu().numpy()


def assess(agent: Agent, carry: Carry, memory: Carry, rows: int) -> tuple[Assessment, Carry]:
    """What the behaviour says of a state, and its memory after it."""
    if not isinstance(agent.behaviour, AssessesStates):
        unknown = torch.full((rows,), torch.nan)
        return Assessment(unknown, unknown), memory
    return agent.behaviour.assess(agent.world.view(carry), memory)


def score_random_action(
    agent: Agent, carry: Carry, following: Segment, generator: Generator
) -> Float[Tensor, " B"]:
    rows = len(following.first)
    if isinstance(agent.world, PredictsSteps):
        action = random_actions(agent.action_space, rows, generator)
        prediction = agent.world.predict(carry, action, following)
        if prediction.log_probs is not None:
            return token_nll(prediction)
    return torch.full((rows,), torch.nan)


def latest(held: HeldOut, time: int, frames: int) -> Segment:
    """The last `frames` steps up to `time`, which may lie behind the last step."""
    time = min(time, held.segment.first.shape[1] - 1)
    rows = np.arange(len(held.segment.first))
    return gather_before(held, np.stack([rows, np.full_like(rows, time)], 1), frames)


@torch.no_grad()
def open_loop(
    agent: Agent,
    held: HeldOut,
    starts: Places,
    *,
    context: int,
    horizon: int,
    generator: Generator,
) -> Predicted:
    """Imagine `horizon` steps from each start. Steps behind an episode's end are meaningless."""
    parts = [
        imagine_windows(agent, held, starts[begin : begin + ROWS], context, horizon, generator)
        for begin in range(0, len(starts), ROWS)
    ]
    tokens = TokenScores(
        *(
            np.concatenate([getattr(part.tokens, field.name) for part in parts])
            for field in fields(TokenScores)
        )
    )
    return Predicted(
        np.concatenate([part.frame for part in parts]),
        np.concatenate([part.reward for part in parts]),
        np.concatenate([part.terminated for part in parts]),
        tokens,
        parts[0].signed,
        parts[0].terminates,
    )


def imagine_windows(
    agent: Agent,
    held: HeldOut,
    starts: Places,
    context: int,
    horizon: int,
    generator: Generator,
) -> Predicted:
    world, recorder = agent.world, Recorder([], [])
    begin = gather_before(held, starts, context).to(agent.device)
    with computing(agent.device, agent.precision):
        carry = world.start(begin, horizon)
        for action, following in recorded_steps(held, starts, horizon, world.frames):
            target = following.to(agent.device)
            carry = recorder.imagine(world, carry, action.to(agent.device), target, generator)
    return recorder.stack()


def recorded_steps(
    held: HeldOut,
    starts: Places,
    horizon: int,
    frames: int,
) -> Iterator[tuple[Tensor, Segment]]:
    """The action of each step and the real steps up to the next; the last step is repeated."""
    last = held.segment.first.shape[1] - 1
    for ahead in range(horizon):
        row, time = starts[:, 0], np.minimum(starts[:, 1] + ahead, last)
        after = np.stack([row, np.minimum(time + 1, last)], 1)
        yield held.segment.action[row, time], gather_before(held, after, frames)
