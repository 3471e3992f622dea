"""Dynamics over a sequence of tokens, predicted one by one: shared by IRIS and Δ-IRIS."""

from dataclasses import dataclass
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional

from tokenworlds.core.capabilities import BoundedSequence
from tokenworlds.core.config import ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.inspection import Prediction
from tokenworlds.core.precision import widen
from tokenworlds.core.protocols import Head, SequenceModel
from tokenworlds.core.types import Carry, Outcome
from tokenworlds.nets.distributions import sample_index
from tokenworlds.nets.readout import INITIAL_STD, Readout, small_normal
from tokenworlds.nets.transformer import TransformerCarry, forget


@dataclass(frozen=True, slots=True)
class Unrolled:
    """The tokens of the next frame and the sequence model's carry.

    The carry has not read the last token: it is read together with what follows.
    """

    outcome: Outcome
    index: Int[Tensor, "B K"]
    sequence: Carry


class ActionEmbedding(nn.Module):
    """Linear without a bias: for an index, an embedding."""

    def __init__(self, actions: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(actions, width) * INITIAL_STD)

    def forward(self, action: Float[Tensor, "*rest A"]) -> Float[Tensor, "*rest D"]:
        return action.to(self.weight.dtype) @ self.weight


class TokenDynamics(nn.Module):
    """Embeddings of tokens and actions, a sequence model, and heads."""

    def __init__(
        self,
        *,
        sequence: ConfigOf[SequenceModel[Any]],
        reward: ConfigOf[Head],
        termination: ConfigOf[Head],
        samples_reward: bool,
        tokens: int,
        vocabulary: int,
        actions: int,
    ) -> None:
        super().__init__()
        self.tokens, self.vocabulary, self.samples_reward = tokens, vocabulary, samples_reward
        self.sequence = sequence.build_from()
        width = self.sequence.width
        self.action = ActionEmbedding(actions, width)
        self.token = small_normal(nn.Embedding(vocabulary, width))
        self.next_token = Readout(width, vocabulary)
        self.reward = reward.build(width=width)
        self.termination = termination.build(width=width)

    def read(
        self, x: Float[Tensor, "B T n D"], starts: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T n D"]:
        """Hidden states at the tokens of each step's block. `starts` clears history."""
        batch, steps, size, _ = x.shape
        self.check_positions(steps * size, f"a segment of {steps} steps")
        y, _ = self._scan(x, starts, self.sequence.initial(batch, 1))
        return rearrange(y, "b (t n) d -> b t n d", n=size)

    def _scan(
        self, x: Float[Tensor, "B T n D"], starts: Bool[Tensor, "B T"], carry: Carry
    ) -> tuple[Float[Tensor, "B tokens D"], Carry]:
        reset = functional.pad(starts.unsqueeze(-1), (0, x.shape[2] - 1))
        flat, reset = rearrange(x, "b t n d -> b (t n) d"), rearrange(reset, "b t n -> b (t n)")
        return self.sequence.scan(flat, reset, carry)

    def prefill(
        self, x: Float[Tensor, "B t n D"], starts: Bool[Tensor, "B T"], room: int | None
    ) -> Carry:
        """The carry after past blocks, with room for more tokens (None: as many as possible).

        `starts` has one step more than the past; where it is set there, the past is cleared.
        """
        batch, past, size, _ = x.shape
        blank = self.sequence.initial(batch, None if room is None else past * size + room)
        if past == 0:
            return blank
        _, carry = self._scan(x, starts[:, :-1], blank)
        return forget(starts[:, -1], blank, carry)

    def extend(
        self, x: Float[Tensor, "B n D"], carry: Carry
    ) -> tuple[Float[Tensor, "B n D"], Carry]:
        """Read some more tokens in one pass."""
        if isinstance(self.sequence, BoundedSequence):
            return self.sequence.extend(x, carry)
        return self.sequence.scan(x, x.new_zeros(x.shape[:2], dtype=torch.bool), carry)

    def has_room(self, carry: Carry, tokens: int) -> bool:
        sequence = self.sequence
        if isinstance(carry, TransformerCarry) and carry.surely_fits(tokens):
            return True
        return not isinstance(sequence, BoundedSequence) or sequence.room(carry) >= tokens

    def check_positions(self, tokens: int, what: str) -> None:
        """Raise if tokens that are read at once have no position each."""
        if isinstance(self.sequence, BoundedSequence) and tokens > self.sequence.max_tokens:
            most = self.sequence.max_tokens
            raise UserError(
                f"{what} takes {tokens} positions, more than world.sequence.positions={most}"
            )

    def check_context(self, context: int, block: int) -> None:
        """Raise unless the context, the current block and the next one have positions."""
        if context < 0:
            raise UserError(f"world.context takes 0 or more steps, not {context}")
        self.check_positions((context + 2) * block, f"one step after a context of {context}")

    def trained_horizon(self, context: int, length: int) -> int | None:
        """The steps of a dream whose positions were trained; a segment's last step has no tokens
        to predict."""
        return length - 1 - context if isinstance(self.sequence, BoundedSequence) else None

    def unroll(
        self,
        x: Float[Tensor, "B n D"],
        carry: Carry,
        generator: Generator | None,
        at_random: bool = False,
    ) -> Unrolled:
        """Read tokens that end with an action, then sample the next frame's tokens one by one."""
        hidden, carry = self.extend(x, carry)
        last = hidden[:, -1]
        head, terminated = self.reward(last), self.termination(last).sample(generator)
        reward = head.sample(generator) if self.samples_reward else head.mean
        index = [self._sample(last, generator, at_random)]
        while len(index) < self.tokens:
            last, carry = self.sequence.step(self.token(index[-1]), carry)
            index.append(self._sample(last, generator, at_random))
        outcome = Outcome(reward, terminated.to(last.dtype))
        return Unrolled(outcome, torch.stack(index, dim=-1), carry)

    @torch.no_grad()
    def predict(
        self, x: Float[Tensor, "B n D"], carry: Carry, index: Int[Tensor, "B K"]
    ) -> Prediction:
        """Read tokens that end with an action, then the real tokens of the next frame."""
        read = torch.cat([x, self.token(index[:, :-1])], dim=1)
        hidden = self.extend(read, carry)[0][:, x.shape[1] - 1 :]
        last = hidden[:, 0]
        log_probs = functional.log_softmax(widen(self.next_token(hidden)), dim=-1)
        return Prediction(self.reward(last), self.termination(last), index, log_probs)

    def _sample(
        self, hidden: Float[Tensor, "B D"], generator: Generator | None, at_random: bool
    ) -> Int[Tensor, " B"]:
        logits = self.next_token(hidden)
        log_probs = (
            torch.zeros_like(logits) if at_random else functional.log_softmax(logits, dim=-1)
        )
        return sample_index(log_probs, generator)

    def token_nll(
        self, hidden: Float[Tensor, "B T K D"], index: Int[Tensor, "B T K"]
    ) -> tuple[Float[Tensor, "B T K"], Bool[Tensor, "B T K"]]:
        """Negative log-likelihood of each token, and whether it was the likeliest one."""
        logits = rearrange(self.next_token(hidden), "b t k v -> b v t k")
        loss = functional.cross_entropy(logits, index, reduction="none")
        return loss, logits.detach().argmax(dim=1) == index
