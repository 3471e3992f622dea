"""Reward heads: two-hot with either kind of bins, and signs read from maps."""

import dataclasses
from typing import Any

import pytest
import torch

from tokenworlds.core.config import ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.overrides import find_member
from tokenworlds.heads.outcomes import (
    MapSignReward,
    MLPReward,
    MLPTermination,
    ReadoutReward,
    ReadoutTermination,
    SignReward,
)
from tokenworlds.nets.distributions import Bins


def make_head() -> MapSignReward:
    torch.manual_seed(0)
    return MapSignReward.Config(channels=4, hidden=8).build(shape=(3, 2, 2))


@pytest.fixture(params=[MLPReward, ReadoutReward])
def two_hot(request: pytest.FixtureRequest) -> Any:
    return request.param.Config()


@pytest.mark.parametrize("bins", ["symlog", "symexp"])
def test_a_two_hot_head_starts_at_zero_and_learns_rewards(two_hot: Any, bins: Bins) -> None:
    torch.manual_seed(0)
    head = dataclasses.replace(two_hot, bins=bins, bin_count=41).build(width=4)
    feature, reward = torch.eye(4), torch.tensor([0.0, -1.0, 12.0, 0.5])
    assert head(feature).mean.tolist() == pytest.approx([0.0] * 4, abs=1e-6)
    assert head(feature).logits.shape == (4, 41)
    optimiser = torch.optim.Adam(head.parameters(), lr=2e-2)
    for _ in range(300):
        optimiser.zero_grad()
        head(feature).loss(reward).mean().backward()
        optimiser.step()
    torch.testing.assert_close(head(feature).mean, reward, atol=0.2, rtol=0.05)


@pytest.mark.parametrize("count", [1, 2, 254])
def test_a_two_hot_head_needs_an_odd_number_of_bins(two_hot: Any, count: int) -> None:
    with pytest.raises(ValueError, match=f"bin_count={count} must be odd and 3 or more"):
        dataclasses.replace(two_hot, bin_count=count)


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("mlp_reward", MLPReward),
        ("readout_reward", ReadoutReward),
        ("sign_reward", SignReward),
        ("map_sign_reward", MapSignReward),
    ],
)
def test_a_reward_head_is_found_by_its_name(name: str, member: type[Any]) -> None:
    for present in (ReadoutReward, SignReward):
        assert find_member(present.Config(), name, "world.reward") is member


@pytest.mark.parametrize(
    ("name", "member"),
    [("mlp_termination", MLPTermination), ("readout_termination", ReadoutTermination)],
)
def test_a_termination_head_is_found_by_its_name(name: str, member: type[Any]) -> None:
    assert find_member(ReadoutTermination.Config(), name, "world.termination") is member


REWARDS = "map_sign_reward, mlp_reward, readout_reward, sign_reward"
TERMINATIONS = "map_termination, mlp_termination, readout_termination"


@pytest.mark.parametrize(
    ("present", "place", "name", "allowed"),
    [
        (MLPReward.Config(), "world.reward", "mlp_termination", REWARDS),
        (SignReward.Config(), "world.reward", "readout_termination", REWARDS),
        (MLPTermination.Config(), "world.termination", "mlp_reward", TERMINATIONS),
    ],
)
def test_a_head_of_the_other_kind_is_refused(
    present: ConfigOf[Any], place: str, name: str, allowed: str
) -> None:
    message = f"^unknown component for {place} '{name}': choose from {allowed}"
    with pytest.raises(UserError, match=message):
        find_member(present, name, place)


@pytest.mark.parametrize("lead", [(), (5,), (2, 3), (0,)])
def test_leading_axes_are_kept(lead: tuple[int, ...]) -> None:
    found = make_head()(torch.randn(*lead, 3, 2, 2))
    assert found.mean.shape == found.mode.shape == lead
    assert found.loss(torch.zeros(lead)).shape == lead


def test_rows_are_independent() -> None:
    head, feature = make_head(), torch.randn(4, 3, 2, 2)
    alone = torch.stack([head(row).mean for row in feature])
    torch.testing.assert_close(head(feature).mean, alone)


def test_a_map_head_learns_the_sign_of_a_reward_from_a_position() -> None:
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
