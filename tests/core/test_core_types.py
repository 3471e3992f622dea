import pytest
import torch
from torch import Tensor

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import ActionSpace, Losses, Segment, View, masked_mean


def losses(**terms: list[list[float]]) -> Losses:
    """Terms that count at the first step only."""
    tensors = {name: torch.tensor(values) for name, values in terms.items()}
    masks = {name: torch.tensor([[True, False]]) for name in terms}
    return Losses(tensors, masks)


def test_a_discrete_action_is_encoded_as_a_one_hot() -> None:
    assert ActionSpace(3).encode(torch.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]


def test_a_continuous_action_is_encoded_as_itself() -> None:
    action = torch.tensor([[0.5, -1.0]])
    assert torch.equal(ActionSpace(2, discrete=False).encode(action), action)


@pytest.mark.parametrize("space", [ActionSpace(3), ActionSpace(3, discrete=False)])
def test_placeholder_actions_can_be_encoded(space: ActionSpace) -> None:
    assert space.encode(space.zeros(2, 5)).shape == (2, 5, 3)


def test_a_masked_mean_weighs_values_by_the_mask() -> None:
    values = torch.tensor([1.0, 2.0, 100.0])
    assert masked_mean(values, torch.tensor([True, True, False])).item() == 1.5
    assert masked_mean(values, torch.tensor([1.0, 3.0, 0.0])).item() == 1.75


def test_the_mean_of_no_values_is_zero_and_not_nan() -> None:
    assert masked_mean(torch.ones(2), torch.zeros(2, dtype=torch.bool)).item() == 0.0


def test_padding_has_no_gradient() -> None:
    term = torch.tensor([[2.0, 3.0]], requires_grad=True)
    Losses({"a": term}, {"a": torch.tensor([[True, False]])}).total({"a": 5.0}).backward()
    assert term.grad is not None
    assert term.grad.tolist() == [[5.0, 0.0]]


def test_the_total_is_the_weighted_sum_of_means() -> None:
    assert losses(a=[[1.0, 9.0]], b=[[2.0, 9.0]]).total({"a": 1.0, "b": 0.5}).item() == 2.0


def test_a_term_without_an_override_has_its_default_weight_or_one() -> None:
    mask = torch.ones(1, 1)
    terms = {"a": torch.ones(1, 1), "b": torch.ones(1, 1), "c": torch.ones(1, 1)}
    found = Losses(terms, dict.fromkeys(terms, mask), scales={"a": 0.25, "b": 0.5})
    assert found.weights({"b": 2.0}) == {"a": 0.25, "b": 2.0, "c": 1.0}
    assert found.total({"b": 2.0}).item() == 3.25


def test_an_override_of_a_term_that_no_part_makes_is_an_error() -> None:
    with pytest.raises(UserError, match=r"unknown loss term 'rewart'.*did you mean 'reward'"):
        losses(reward=[[1.0, 1.0]]).total({"rewart": 1.0})


def test_joined_losses_keep_all_fields() -> None:
    done: list[str] = []
    mask = {"a": torch.ones(1, 1)}
    one = Losses({"a": torch.ones(1, 1)}, mask, {"m": torch.ones(())}, (lambda: done.append("x"),))
    two = Losses({"b": torch.ones(1, 1)}, {"b": mask["a"]}, {}, (lambda: done.append("y"),))
    joined = one | two
    for finish in joined.after:
        finish()
    assert joined.terms.keys() == joined.masks.keys() == {"a", "b"}
    assert joined.metrics.keys() == {"m"}
    assert done == ["x", "y"]


def test_losses_with_a_common_term_do_not_join() -> None:
    with pytest.raises(KeyError, match="named twice"):
        _ = losses(a=[[1.0, 1.0]]) | losses(a=[[1.0, 1.0]])


def test_the_frame_of_a_view_is_decoded_on_request_only() -> None:
    decoded: list[int] = []

    def decode() -> Tensor:
        decoded.append(1)
        return torch.zeros(1, 3, 2, 2)

    view = View(torch.zeros(1, 4).clone, decode)
    assert not decoded
    assert view.frame.shape == (1, 3, 2, 2)
    assert decoded == [1]


def test_all_tensors_of_a_segment_move_to_a_device() -> None:
    flags = torch.zeros(2, 3, dtype=torch.bool)
    segment = Segment(
        frame=torch.zeros(2, 3, 4, 4, 3, dtype=torch.uint8),
        first=flags,
        action=torch.zeros(2, 3, dtype=torch.long),
        reward=torch.zeros(2, 3),
        terminated=flags,
        truncated=flags,
        mask=~flags,
        tokens=torch.zeros(2, 3, 4, dtype=torch.long),
        latent=torch.zeros(2, 5),
    )
    moved = segment.to(torch.device("meta"))
    assert {getattr(moved, name).device.type for name in Segment.__slots__} == {"meta"}
