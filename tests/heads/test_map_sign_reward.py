"""A head that reads maps."""

import pytest
import torch

from tokenworlds.heads.reward import MapSignReward


def make_head() -> MapSignReward:
    torch.manual_seed(0)
    return MapSignReward.Config(channels=4, hidden=8).build(shape=(3, 2, 2))


@pytest.mark.parametrize("lead", [(), (5,), (2, 3), (0,)])
def test_free_axes_stay_as_they_are(lead: tuple[int, ...]) -> None:
    found = make_head()(torch.randn(*lead, 3, 2, 2))
    assert found.mean.shape == found.mode.shape == lead
    assert found.loss(torch.zeros(lead)).shape == lead


def test_rows_are_read_each_by_itself() -> None:
    head, feature = make_head(), torch.randn(4, 3, 2, 2)
    alone = torch.stack([head(row).mean for row in feature])
    torch.testing.assert_close(head(feature).mean, alone)


def test_the_sign_of_a_reward_is_learned_from_where_something_is() -> None:
    head = make_head()
    reward = torch.tensor([-3.0, 0.0, 7.0])
    feature = torch.zeros(3, 3, 2, 2)
    feature[torch.arange(3), 0, torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0])] = 1.0
    optimiser = torch.optim.Adam(head.parameters(), lr=1e-2)
    for _ in range(150):
        optimiser.zero_grad()
        head(feature).loss(reward).mean().backward()
        optimiser.step()
    assert torch.equal(head(feature).mode, torch.tensor([-1.0, 0.0, 1.0]))
    torch.testing.assert_close(head(feature).mean, reward.sign(), atol=0.1, rtol=0)
