"""A batch is spread over ranks; in one process it is whole."""

import pytest
import torch

from tokenworlds.core.errors import UserError
from tokenworlds.core.group import ALONE, Group
from tokenworlds.core.sharing import Share, check_shares, draw, share_of, sharing


@pytest.mark.parametrize(("rows", "ranks"), [(8, 2), (5, 2), (7, 3), (3, 3), (100, 7)])
def test_shares_cover_the_batch_and_differ_by_at_most_one_row(rows: int, ranks: int) -> None:
    shares = [share_of(Group(rank, ranks), rows) for rank in range(ranks)]
    covered = [row for share in shares for row in range(share.start, share.stop)]
    assert covered == list(range(rows))
    lengths = [len(share) for share in shares]
    assert max(lengths) - min(lengths) <= 1


def test_a_part_of_a_share_counts_from_the_first_row_of_the_part() -> None:
    share = Share(2, 6, 8)
    assert share.within(0, 4) == Share(2, 4, 4)
    assert share.within(4, 8) == Share(0, 2, 4)
    assert len(share.within(6, 8)) == 0


def test_ranks_keep_their_rows_of_what_one_process_draws() -> None:
    torch.manual_seed(0)
    whole = draw(torch.rand_like, torch.empty(5, 3, 2))
    parts = []
    for rank in range(2):
        torch.manual_seed(0)
        group = Group(rank, 2)
        share = share_of(group, 5)
        with sharing(group, share):
            parts.append(draw(torch.rand_like, torch.empty(len(share), 3, 2)))
            # A later draw continues the stream after the whole batch.
            parts.append(torch.rand(1))
    assert torch.equal(torch.cat([parts[0], parts[2]]), whole)
    assert torch.equal(parts[1], parts[3])


def test_folded_rows_keep_their_places() -> None:
    group = Group(1, 2)
    share = share_of(group, 4)
    torch.manual_seed(0)
    whole = torch.rand(12)
    torch.manual_seed(0)
    with sharing(group, share):
        assert torch.equal(draw(torch.rand_like, torch.empty(6)), whole[6:])
        with pytest.raises(ValueError, match="5 rows do not belong to 2 rows"):
            draw(torch.rand_like, torch.empty(5))


def test_a_batch_smaller_than_the_group_is_refused() -> None:
    with pytest.raises(UserError, match=r"learning\.world\.batch=1 is too small for 2 ranks"):
        check_shares(Group(0, 2), 1, "learning.world.batch")
    check_shares(ALONE, 1, "learning.world.batch")


def test_ranks_take_the_card_of_their_number() -> None:
    assert Group(3, 8, local_rank=3).place("cuda") == "cuda:3"
    assert Group(3, 8, local_rank=3).place("cpu") == "cpu"
    assert ALONE.place("cuda:1") == "cuda:1"
    with pytest.raises(UserError, match="--device cuda:1 cannot be shared by 8 ranks"):
        Group(3, 8, local_rank=3).place("cuda:1")
