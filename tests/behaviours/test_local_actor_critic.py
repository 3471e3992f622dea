"""An actor and a critic that read the grid of tokens by convolutions."""

from typing import Any

import pytest
import torch
from frame_worlds import SHAPE, SolvedWorld, segment_of
from torch import Generator, Tensor

from tokenworlds.behaviours.latent_actor_critic import LatentActorCritic
from tokenworlds.core.types import ActionSpace, Cells, Outcome, Segment, TokenFeature, View
from tokenworlds.nets.cells import CellSummary

ROWS, COLUMNS, CODES = 6, 6, 3
GRID = Cells((ROWS, COLUMNS), CODES)
SUMMARY = CellSummary.Config(embedding=8, filters=(16, 16), strides=(1, 1), groups=1)


def boards(place: Tensor) -> Tensor:
    """Codes 1 and 2 side by side on an empty board; place is row, column and which is left."""
    row, column, swapped = place.unbind(-1)
    board = torch.zeros(len(place), ROWS, COLUMNS, dtype=torch.long)
    each = torch.arange(len(place))
    board[each, row, column] = 1 + swapped
    board[each, row, column + 1] = 2 - swapped
    return board.flatten(1)


class Pairs(SolvedWorld):
    """Pays the action that says which code is on the left; nothing moves."""

    def view(self, carry: Tensor) -> View:
        feature = TokenFeature(boards(carry), torch.zeros(len(carry), 1), CODES)
        return View(lambda: feature, lambda: torch.empty(0))

    def start(self, segment: Segment, steps: int) -> Tensor:
        return torch.stack([segment.action[:, -1] // 10, *digits(segment.action[:, -1] % 10)], -1)

    def step(
        self, carry: Tensor, action: Tensor, generator: Generator | None = None
    ) -> tuple[Tensor, Outcome]:
        return carry, Outcome((action == carry[:, 2]).float(), torch.zeros(len(carry)))


def digits(number: Tensor) -> tuple[Tensor, Tensor]:
    """The column, and which code is on the left."""
    return number // 2, number % 2


def every_place(rows: range) -> Tensor:
    """Row, column and which code is left as one number, as `Pairs.start` reads it."""
    return torch.tensor([10 * row + rest for row in rows for rest in range(2 * (COLUMNS - 1))])


def behaviour(cells: Cells | None = GRID, **choices: Any) -> LatentActorCritic:
    torch.manual_seed(0)
    config = LatentActorCritic.Config(
        horizon=1, discount=0.5, actor=(32,), critic=(32,), local=SUMMARY, **choices
    )
    shape = (ROWS * COLUMNS * CODES + 1,)
    spaces = {"frame_shape": SHAPE, "action_space": ActionSpace(2)}
    return config.build(feature_shape=shape, cells=cells, **spaces)


def start_at(places: Tensor) -> Segment:
    frame = torch.zeros(len(places), 1, 8, 8, 3, dtype=torch.uint8)
    return segment_of(frame, places[:, None])


def learn(agent: LatentActorCritic, places: Tensor, updates: int) -> None:
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-3)
    for _ in range(updates):
        losses = agent.losses(Pairs(), start_at(places), generator)
        optimizer.zero_grad()
        losses.total({"actor": 1.0, "entropy": 1e-3, "critic": 1.0, "slow_critic": 1.0}).backward()
        optimizer.step()
        for follow in losses.after:
            follow()


def share_right(agent: LatentActorCritic, places: Tensor) -> float:
    carry = Pairs().start(start_at(places), 1)
    chosen = agent.policy(Pairs().view(carry).compact_feature).mode
    return float((chosen == carry[:, 2]).float().mean())


@pytest.mark.parametrize(("cells", "transfers"), [(GRID, True), (None, False)])
def test_what_is_learned_in_some_rows_holds_in_others(cells: Cells | None, transfers: bool) -> None:
    agent = behaviour(cells)
    learned, new = every_place(range(3)), every_place(range(3, ROWS))
    learn(agent, learned, 100)
    assert share_right(agent, learned) == 1.0
    assert (share_right(agent, new) > 0.9) == transfers


def test_a_summary_does_not_depend_on_the_place() -> None:
    """As long as the pair stays away from the border: each of two layers reads one cell further."""
    torch.manual_seed(0)
    summary = SUMMARY.build(cells=Cells((11, 11), CODES))
    board, moved = torch.zeros(2, 1, 11, 11, dtype=torch.long)
    board[0, 4, 4:6], moved[0, 6, 5:7] = torch.tensor([1, 2]), torch.tensor([1, 2])
    swapped = torch.where(board > 0, 3 - board, board)
    found, elsewhere, other = (summary(each.flatten(1)) for each in (board, moved, swapped))
    torch.testing.assert_close(found, elsewhere)
    assert (found - other).abs().max() > 1e-3


def test_features_without_a_grid_are_read_as_they_are() -> None:
    agent = behaviour(cells=None)
    assert agent.local is None
    assert agent.policy(torch.zeros(2, ROWS * COLUMNS * CODES + 1)).entropy().shape == (2,)
