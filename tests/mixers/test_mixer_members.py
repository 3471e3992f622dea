"""Each mixer: its size, its initialisation and its network."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tokenworlds.core.errors import UserError
from tokenworlds.mixers.concatenation import Concatenation
from tokenworlds.mixers.concatenation_attention import ConcatenationAttention
from tokenworlds.mixers.cross_attention import CrossAttention
from tokenworlds.mixers.unmixed import Unmixed

STORM = {"tokens": 32, "vocabulary": 32, "width": 512}
SMALL = {"tokens": 3, "vocabulary": 4, "actions": 2, "width": 8}


@pytest.mark.parametrize("actions", [1, 6, 18])
def test_concatenation_has_storms_parameters(actions: int) -> None:
    mixer = Concatenation.Config().build(**STORM, actions=actions)
    assert sum(p.numel() for p in mixer.parameters()) == 788_480 + 512 * actions


def test_concatenation_is_a_linear_layer_over_codes_and_action() -> None:
    torch.manual_seed(0)
    mixer = Concatenation.Config().build(**SMALL)
    sample = functional.one_hot(torch.randint(4, (5, 3)), 4).float()
    action = torch.randn(5, 2)
    joint = nn.Linear(14, 8, bias=False)
    joint.weight.data = torch.cat([mixer.codes.T, mixer.action.weight], 1).detach()
    stem = nn.Sequential(joint, mixer.hidden_norm, nn.ReLU(), mixer.output, mixer.norm)
    expected = stem(torch.cat([sample.flatten(1), action], 1))
    torch.testing.assert_close(mixer(sample, action), expected, rtol=0, atol=1e-6)


def test_concatenation_is_initialised_as_one_linear_layer() -> None:
    torch.manual_seed(0)
    mixer = Concatenation.Config().build(**STORM, actions=18)
    joint = nn.Linear(1024 + 18, 512, bias=False).weight
    for part in (mixer.codes, mixer.action.weight):
        assert part.abs().max() <= joint.abs().max() * 1.01
        torch.testing.assert_close(part.std(), joint.std(), rtol=0.02, atol=0)


def test_unmixed_keeps_codes_and_action_apart() -> None:
    torch.manual_seed(0)
    mixer = Unmixed.Config().build(**SMALL)
    index, action = torch.tensor([[0, 1, 2], [3, 3, 3]]), torch.randn(2, 2)
    mixed, other = mixer.look_up(index, action), mixer.look_up(index, action + 1)
    assert ((mixed != other).any(0)).tolist() == [False] * 4 + [True] * 4
    other = mixer.look_up(index.flip(1) + torch.tensor([[0], [-1]]), action)
    assert ((mixed != other).any(0)).tolist() == [True] * 4 + [False] * 4


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(UserError, match=r"heads=3 .* 64"):
        ConcatenationAttention.Config(heads=3).build(**SMALL)
    with pytest.raises(UserError, match=r"heads=3 .* 8"):
        CrossAttention.Config(heads=3).build(**SMALL)
