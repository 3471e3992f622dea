"""The stack of ConvLSTM cells: the inputs of each, and the parameter counts of the paper."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tokenworlds.core.errors import UserError
from tokenworlds.heads.outcomes import MapSignReward
from tokenworlds.priors.factorised import Factorised
from tokenworlds.sequence.convlstm import ConvLSTM

SIZES = {
    3: (2_161_024, 3_389_824, 16_896, 598_403),
    4: (2_173_824, 3_402_624, 17_024, 598_435),
    6: (2_199_424, 3_428_224, 17_280, 598_499),
    9: (2_237_824, 3_466_624, 17_664, 598_595),
    18: (2_353_024, 3_581_824, 18_816, 598_883),
}


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("actions", SIZES)
def test_the_dynamics_have_the_paper_s_parameters(actions: int) -> None:
    with torch.device("meta"):
        model = ConvLSTM.Config().build(inputs=32, actions=actions, grid=(6, 6))
        read = model.width + actions
        prior = Factorised.Config(shared=True).build(width=36 * read, tokens=36, vocabulary=128)
        reward = MapSignReward.Config().build(shape=(read, 6, 6))
    found = (*(count(cell) for cell in model.stack()), count(prior), count(reward))
    assert found == SIZES[actions]
    assert sum(found) == 6_088_867 + 25_760 * actions


def make_model(**choices: int) -> ConvLSTM:
    torch.manual_seed(0)
    config = ConvLSTM.Config(**{"channels": 4, "kernel": 3, **choices})
    return config.build(inputs=2, actions=3, grid=(3, 3))


def random_maps() -> tuple[Tensor, Tensor]:
    return torch.randn(2, 5, 3, 3), torch.randn(2, 3, 3, 3)


@torch.no_grad()
def test_every_cell_reads_the_planes_of_the_action() -> None:
    model = make_model(layers=3)
    x, other = random_maps()
    carry = model.initial(2)
    y, after = model.step(x, carry)
    expected, read = [], x
    for cell, state in zip(model.stack(), carry, strict=True):
        expected.append(cell.step(read, state))
        read = torch.cat([expected[-1].hidden, x[:, -3:]], 1)
    for ours, theirs in zip(after, expected, strict=True):
        torch.testing.assert_close((ours.hidden, ours.cell), (theirs.hidden, theirs.cell))
    assert torch.equal(y, after[-1].hidden)
    first, second, _ = model.stack()
    with_action = second.step(torch.cat([after[0].hidden, other], 1), carry[1])
    assert not torch.allclose(with_action.hidden, after[1].hidden)
    assert first.input.in_channels == 5
    assert second.input.in_channels == 7


@torch.no_grad()
def test_the_initial_state_is_zero() -> None:
    for state in make_model().initial(2):
        assert state.hidden.shape == state.cell.shape == (2, 4, 3, 3)
        assert not state.hidden.any()
        assert not state.cell.any()


@pytest.mark.parametrize("grid", [(36, 1), (1, 1)])
@torch.no_grad()
def test_a_line_and_a_vector_are_maps_too(grid: tuple[int, int]) -> None:
    config = ConvLSTM.Config(channels=4)
    model = config.build(inputs=2, actions=3, grid=grid)
    x = torch.randn(2, 4, 5, *grid)
    y, _ = model.scan(x, torch.zeros(2, 4, dtype=torch.bool), model.initial(2))
    assert y.shape == (2, 4, 4, *grid)


@pytest.mark.parametrize(
    ("choices", "words"), [({"kernel": 4}, "kernel=4 .* odd"), ({"layers": 0}, "1 or more")]
)
def test_impossible_sizes_are_an_error(choices: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        make_model(**choices)


def test_without_a_grid_a_vector_is_a_map_of_one_cell() -> None:
    vectors, maps = (
        ConvLSTM.Config(channels=6, layers=2, kernel=1).build_from(**dimensions).double()
        for dimensions in ({}, {"inputs": 6, "actions": 0, "grid": (1, 1)})
    )
    maps.load_state_dict(vectors.state_dict())
    x = torch.randn(2, 5, 6, dtype=torch.double)
    reset = torch.zeros(2, 5, dtype=torch.bool)
    reset[1, 3] = True
    ours, carry = vectors.scan(x, reset, vectors.initial(2))
    theirs, _ = maps.scan(x[..., None, None], reset, maps.initial(2))
    torch.testing.assert_close(ours, theirs[..., 0, 0])
    after, _ = vectors.step(x[:, 0], carry)
    assert after.shape == (2, vectors.width)
    torch.testing.assert_close(vectors.scan(x[:, :1], reset[:, :1], carry)[0][:, 0], after)
