"""What the worlds of IRIS and Δ-IRIS have in common: tokens in line, foreseen one by one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.protocols import Head, SequenceModel
from tokenworlds.core.trees import where_rows
from tokenworlds.core.types import Carry, Losses, Segment
from tokenworlds.nets.distributions import sample_index
from tokenworlds.nets.readout import INITIAL_STD, Readout, small_normal
from tokenworlds.sequence.token_transformer import TokenTransformer
from tokenworlds.worlds.outcomes import outcome_losses


@dataclass(frozen=True, slots=True)
class TokenView:
    """A feature and a frame, each made when asked for."""

    describe: Callable[[], Float[Tensor, "B *D"]]
    decode: Callable[[], Float[Tensor, "B C H W"]]

    @property
    def feature(self) -> Float[Tensor, "B *D"]:
        """The hidden state at the last token of what is seen, or a map of its codes."""
        return self.describe()

    @property
    def frame(self) -> Float[Tensor, "B C H W"]:
        """In [0, 1]."""
        return self.decode()


@dataclass(frozen=True, slots=True)
class Imagined:
    """What came of an action, the tokens of the next frame, and the sequence model's carry.

    The last token is not in the carry: it is read together with what follows it.
    """

    reward: Float[Tensor, " B"]
    terminated: Float[Tensor, " B"]
    index: Int[Tensor, "B K"]
    sequence: Carry


class ActionEmbedding(nn.Module):
    """Linear without a bias: for an index, an embedding."""

    def __init__(self, actions: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(actions, width) * INITIAL_STD)

    def forward(self, action: Float[Tensor, "*rest A"]) -> Float[Tensor, "*rest D"]:
        """One vector for each action."""
        return action.to(self.weight.dtype) @ self.weight


class Dynamics(nn.Module):
    """A sequence model between embeddings of tokens and actions, and heads."""

    def __init__(
        self,
        *,
        sequence: ConfigOf[SequenceModel[Any]],
        reward: ConfigOf[Head],
        termination: ConfigOf[Head],
        draws_reward: bool,
        tokens: int,
        vocabulary: int,
        actions: int,
    ) -> None:
        super().__init__()
        self.tokens, self.vocabulary, self.draws_reward = tokens, vocabulary, draws_reward
        self.sequence = sequence.build()
        width = self.sequence.width
        self.action = ActionEmbedding(actions, width)
        self.token = small_normal(nn.Embedding(vocabulary, width))
        self.next_token = Readout(width, vocabulary)
        self.reward = reward.build(width=width)
        self.termination = termination.build(width=width)

    def read(
        self, x: Float[Tensor, "B T n D"], opens: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T n D"]:
        """Hidden states at the tokens of each block; the past of an opening block is not seen."""
        batch, steps, size, _ = x.shape
        self.insist_on_positions(steps * size, f"a segment of {steps} steps")
        y, _ = self._scan(x, opens, self.sequence.initial(batch, 1))
        return rearrange(y, "b (t n) d -> b t n d", n=size)

    def _scan(
        self, x: Float[Tensor, "B T n D"], opens: Bool[Tensor, "B T"], carry: Carry
    ) -> tuple[Float[Tensor, "B tokens D"], Carry]:
        reset = functional.pad(opens.unsqueeze(-1), (0, x.shape[2] - 1))
        flat, reset = rearrange(x, "b t n d -> b (t n) d"), rearrange(reset, "b t n -> b (t n)")
        return self.sequence.scan(flat, reset, carry)

    def remember(
        self, x: Float[Tensor, "B t n D"], opens: Bool[Tensor, "B T"], coming: int | None
    ) -> Carry:
        """The carry after blocks of the past, ready for the tokens to come.

        `opens` has one step more than the past: where that one opens, the past is forgotten.
        """
        batch, past, size, _ = x.shape
        blank = self.sequence.initial(batch, None if coming is None else past * size + coming)
        if past == 0:
            return blank
        _, carry = self._scan(x, opens[:, :-1], blank)
        return where_rows(opens[:, -1], blank, carry)

    def extend(
        self, x: Float[Tensor, "B n D"], carry: Carry
    ) -> tuple[Float[Tensor, "B n D"], Carry]:
        """Take in some more tokens in one pass."""
        if isinstance(self.sequence, TokenTransformer):
            return self.sequence.extend(x, carry)
        return self.sequence.scan(x, x.new_zeros(x.shape[:2], dtype=torch.bool), carry)

    def has_room(self, carry: Carry, tokens: int) -> bool:
        """Whether so many more have a position; sequence models without a table take any number."""
        sequence = self.sequence
        return not isinstance(sequence, TokenTransformer) or sequence.room(carry) >= tokens

    def insist_on_positions(self, tokens: int, what: str) -> None:
        """Raise if tokens that must be read at once have no position each."""
        if isinstance(self.sequence, TokenTransformer):
            most = self.sequence.positions.num_embeddings
            if tokens > most:
                raise UserError(
                    f"{what} takes {tokens} positions, more than world.sequence.positions={most}"
                )

    def insist_on_context(self, context: int, block: int) -> None:
        """Raise unless so many past blocks, the one in front and the next can be read."""
        if context < 0:
            raise UserError(f"world.context takes 0 or more steps, not {context}")
        self.insist_on_positions((context + 2) * block, f"one step after a context of {context}")

    def unroll(
        self,
        x: Float[Tensor, "B n D"],
        carry: Carry,
        generator: Generator | None,
        at_random: bool = False,
    ) -> Imagined:
        """Take in tokens that end with an action, and go on to the last token but one."""
        hidden, carry = self.extend(x, carry)
        last = hidden[:, -1]
        reward, terminated = self.reward(last), self.termination(last).sample(generator)
        drawn = reward.sample(generator) if self.draws_reward else reward.mean
        index = [self._draw(last, generator, at_random)]
        while len(index) < self.tokens:
            last, carry = self.sequence.step(self.token(index[-1]), carry)
            index.append(self._draw(last, generator, at_random))
        return Imagined(drawn, terminated.to(last.dtype), torch.stack(index, dim=-1), carry)

    def _draw(
        self, hidden: Float[Tensor, "B D"], generator: Generator | None, at_random: bool
    ) -> Int[Tensor, " B"]:
        """The next token, from the model or uniformly."""
        logits = self.next_token(hidden)
        chances = torch.zeros_like(logits) if at_random else functional.log_softmax(logits, dim=-1)
        return sample_index(chances, generator)

    def surprise(
        self, hidden: Float[Tensor, "B T K D"], index: Int[Tensor, "B T K"]
    ) -> tuple[Float[Tensor, "B T K"], Bool[Tensor, "B T K"]]:
        """Cross-entropy of each token given the hidden state before it, and if it was likeliest."""
        logits = rearrange(self.next_token(hidden), "b t k v -> b v t k")
        loss = functional.cross_entropy(logits, index, reduction="none")
        return loss, logits.detach().argmax(dim=1) == index

    def outcomes(self, hidden: Float[Tensor, "B T D"], segment: Segment) -> Losses:
        """Reward and ending of each step, read from the position of its action."""
        return outcome_losses(self.reward, self.termination, hidden, segment)
