"""A world that knows the rules of catch, a policy that plays it well, and ways to break both."""

from dataclasses import dataclass
from typing import Any

import torch
from einops import rearrange, repeat
from torch import Generator, Tensor, nn
from torch.nn import functional

from tokenworlds.agent import Agent
from tokenworlds.core.inspection import Assessment, Prediction
from tokenworlds.core.types import (
    ActionSpace,
    FrameShape,
    Losses,
    Outcome,
    Reconstruction,
    Segment,
    View,
)
from tokenworlds.envs.toys import BACKGROUND, BALL, CAUGHT, CELLS, PADDLE
from tokenworlds.nets.distributions import Bernoulli

SIDE = 16
COLOURS = torch.tensor([BACKGROUND, BALL, PADDLE, CAUGHT])
EMPTY, BALL_CELL, PADDLE_CELL, CAUGHT_CELL = range(4)
DISCOUNT = 0.9


@dataclass(frozen=True)
class Exactly:
    """A reward that is certain."""

    mean: Tensor

    @property
    def mode(self) -> Tensor:
        return self.mean

    def loss(self, target: Tensor) -> Tensor:
        return (self.mean - target).square()

    def sample(self, generator: Generator | None) -> Tensor:
        return self.mean

    def entropy(self) -> Tensor:
        return torch.zeros_like(self.mean)


@dataclass(frozen=True)
class Oracle:
    """What is broken. The tokenizer forgets the ball, the dynamics stands still, and with `actions`
    it takes random ones."""

    tokenizer: bool = False
    dynamics: bool = False
    actions: bool = False
    posterior: bool = False
    reward: bool = False
    termination: bool = False
    value: bool = False
    policy: bool = False


class CatchRules(nn.Module):
    """The state is the board: a token for each cell. It tells no probabilities."""

    frames = 1

    def __init__(self, broken: Oracle) -> None:
        super().__init__()
        self.broken = broken
        self.feature_shape: tuple[int, ...] = (CELLS * CELLS,)
        self.unused = nn.Parameter(torch.zeros(1))

    def trainables(self) -> Any:
        raise NotImplementedError

    def policy_frames(self, segment: Segment) -> Tensor:
        raise NotImplementedError

    def cells(self, frame: Tensor) -> Tensor:
        """Tokens of frames [..., H, W, C]."""
        step = SIDE // CELLS
        colour = frame[..., ::step, ::step, :].long()
        distance = (colour.unsqueeze(-2) - COLOURS).abs().sum(-1)
        return distance.argmin(-1).flatten(-2)

    def decode(self, cells: Tensor) -> Tensor:
        if self.broken.tokenizer:
            cells = torch.where(cells == BALL_CELL, EMPTY, cells)
            cells = torch.where(cells == PADDLE_CELL, EMPTY, cells)
        board = rearrange(COLOURS[cells], "... (h w) c -> ... c h w", h=CELLS) / 255
        step = SIDE // CELLS
        return repeat(board, "... h w -> ... (h a) (w b)", a=step, b=step)

    def observe(
        self,
        frame: Tensor,
        action: Tensor,
        reset: Tensor,
        carry: Tensor | None,
        generator: Generator | None = None,
    ) -> Tensor:
        return self.cells(frame)

    def start(self, segment: Segment, steps: int) -> Tensor:
        return self.cells(segment.frame[:, -1])

    def advance(self, cells: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The next board, its reward, and whether the ball has landed."""
        if self.broken.actions:
            action = torch.randint(3, action.shape)
        board = rearrange(cells, "b (h w) -> b h w", h=CELLS)
        ball = (board == BALL_CELL).flatten(1).long().argmax(1)
        row = (ball // CELLS + 1).clamp(max=CELLS - 1)
        column = ball % CELLS
        paddle = (board[:, -1] == PADDLE_CELL).long().argmax(1) + 1
        paddle = (paddle + action - 1).clamp(1, CELLS - 2)
        under = (column - paddle).abs() <= 1
        landed = row == CELLS - 1
        after = torch.full_like(board, EMPTY)
        rows = torch.arange(len(board))
        for offset in (-1, 0, 1):
            after[rows, CELLS - 1, paddle + offset] = PADDLE_CELL
        after[rows, row, column] = torch.where(landed & under, CAUGHT_CELL, BALL_CELL)
        reward = torch.where(landed, torch.where(under, 1.0, -1.0), 0.0)
        board = board if self.broken.dynamics else after
        return board.flatten(1), reward, landed

    def outcome(self, reward: Tensor, landed: Tensor) -> Outcome:
        chance = torch.full_like(reward, 0.6) if self.broken.termination else landed.float()
        return Outcome(torch.zeros_like(reward) if self.broken.reward else reward, chance)

    def step(
        self, carry: Tensor, action: Tensor, generator: Generator | None = None
    ) -> tuple[Tensor, Outcome]:
        carry, reward, landed = self.advance(carry, action)
        return carry, self.outcome(reward, landed)

    def view(self, carry: Tensor) -> View:
        return View(lambda: carry.float(), lambda: self.decode(carry))

    def reconstruct(self, segment: Segment) -> Reconstruction:
        cells = self.cells(segment.frame)
        return Reconstruction(cells, self.decode(cells), len(COLOURS), (CELLS, CELLS))


class CatchWorld(CatchRules):
    def predict(self, carry: Tensor, action: Tensor, following: Segment) -> Prediction:
        after, reward, landed = self.advance(carry, action)
        outcome = self.outcome(reward, landed)
        index = self.cells(following.frame[:, -1])
        chance = outcome.terminated.clamp(1e-4, 1 - 1e-4)
        posterior = nearly(index)
        if self.broken.posterior:
            posterior = torch.full_like(posterior, 0.25).log()
        return Prediction(
            Exactly(outcome.reward),
            Bernoulli(chance.logit()),
            index,
            nearly(after),
            posterior,
        )


def nearly(cells: Tensor) -> Tensor:
    """Log-probabilities that are almost certain of these tokens."""
    certain = functional.one_hot(cells, len(COLOURS)).float()
    return (0.99 * certain + 0.01 / len(COLOURS)).log()


class CatchPolicy(nn.Module):
    """Moves the paddle under the ball."""

    horizon = 1
    discount = DISCOUNT
    return_spread = 2.0
    return_floor = 1.0

    def __init__(self, broken: Oracle) -> None:
        super().__init__()
        self.broken = broken

    def initial(self, batch: int) -> Any:
        return ()

    def act(
        self, view: View, carry: Any, generator: Generator | None, temperature: float = 1.0
    ) -> tuple[Tensor, Any]:
        board = rearrange(view.feature, "b (h w) -> b h w", h=CELLS)
        column = (board == BALL_CELL).any(1).long().argmax(1)
        paddle = (board[:, -1] == PADDLE_CELL).long().argmax(1) + 1
        wanted = (column - paddle).sign() + 1
        random = torch.randint(3, wanted.shape, generator=generator)
        return (random if self.broken.policy else wanted), carry

    def assess(self, view: View, carry: Any) -> tuple[Assessment, Any]:
        board = rearrange(view.feature, "b (h w) -> b h w", h=CELLS)
        row = (board == BALL_CELL).flatten(1).long().argmax(1) // CELLS
        value = DISCOUNT ** (CELLS - 2 - row).float()
        entropy = torch.full_like(value, 1.09 if self.broken.policy else 0.1)
        return Assessment(torch.zeros_like(value) if self.broken.value else value, entropy), carry

    def losses(self, world: Any, segment: Segment, generator: Generator | None) -> Losses:
        raise NotImplementedError


def oracle_agent(broken: Oracle) -> Agent:
    shape = FrameShape(SIDE, SIDE)
    return Agent(CatchWorld(broken), CatchPolicy(broken), shape, ActionSpace(3)).eval()
