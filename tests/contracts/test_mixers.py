"""The contract of every state mixer; members are found by walking the package."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds import mixers
from tokenworlds.core.overrides import import_member, main_component, members, override
from tokenworlds.core.protocols import StateMixer
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.recipes.catalogue import load

TOKENS, VOCABULARY, ACTIONS, WIDTH = 5, 7, 3, 16


@pytest.fixture(params=members(mixers))
def mixer(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(0)
    sizes = {"tokens": TOKENS, "vocabulary": VOCABULARY, "actions": ACTIONS, "width": WIDTH}
    owner: Any = main_component(import_member(mixers, request.param))
    return owner.Config().build(**sizes).double()


@pytest.fixture(params=["discrete", "continuous"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def indices(*lead: int) -> Tensor:
    return torch.randint(VOCABULARY, (*lead, TOKENS), generator=torch.Generator().manual_seed(1))


def one_hot(index: Tensor) -> Tensor:
    return functional.one_hot(index, VOCABULARY).double()


def actions(kind: str, *lead: int) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    if kind == "continuous":
        return torch.randn(*lead, ACTIONS, generator=generator, dtype=torch.float64)
    chosen = torch.randint(ACTIONS, lead, generator=generator)
    return ActionSpace(ACTIONS).encode(chosen).double()


def test_members_are_found() -> None:
    assert {
        "projection",
        "concatenation",
        "concatenation_attention",
        "cross_attention",
        "unmixed",
    } <= set(members(mixers))


def test_it_is_a_state_mixer(mixer: Any) -> None:
    assert isinstance(mixer, StateMixer)


@pytest.mark.parametrize("lead", [(), (4,), (4, 6), (2, 3, 4)])
def test_looking_up_indices_equals_mixing_one_hots(
    mixer: Any, kind: str, lead: tuple[int, ...]
) -> None:
    index, action = indices(*lead), actions(kind, *lead)
    mixed = mixer(one_hot(index), action)
    assert mixed.shape == (*lead, WIDTH)
    torch.testing.assert_close(mixer.look_up(index, action), mixed, rtol=0, atol=1e-6)


def test_gradients_reach_every_code_the_action_and_every_parameter(mixer: Any, kind: str) -> None:
    sample = one_hot(indices(8)).requires_grad_()
    action = actions(kind, 8).requires_grad_()
    (
        mixer(sample, action) * torch.linspace(-1, 1, WIDTH, dtype=torch.float64)
    ).square().sum().backward()
    assert sample.grad is not None
    assert action.grad is not None
    assert (sample.grad.abs().amax(-1) > 0).all()
    assert (action.grad.abs().amax(-1) > 0).all()
    assert [name for name, p in mixer.named_parameters() if not p.grad.any()] == []


@pytest.mark.parametrize("token", range(TOKENS))
def test_each_code_matters(mixer: Any, token: int) -> None:
    index, action = indices(8), actions("discrete", 8)
    other = index.clone()
    other[:, token] = (index[:, token] + 1) % VOCABULARY
    change = mixer.look_up(other, action) - mixer.look_up(index, action)
    assert (change.abs().amax(-1) > 1e-4).all()


def test_the_position_of_a_code_matters(mixer: Any) -> None:
    index = torch.tensor([[1, 2, 3, 4, 5], [2, 1, 3, 4, 5]])
    ours, theirs = mixer.look_up(index, actions("discrete", 1).expand(2, -1))
    assert (ours - theirs).abs().amax() > 1e-4


def test_the_action_matters(mixer: Any) -> None:
    """The choice of action, and the size of a continuous one."""
    index = indices(1).expand(4, -1)
    action = torch.cat([torch.eye(ACTIONS), 0.5 * torch.eye(ACTIONS)[:1]]).double()
    mixed = mixer.look_up(index, action)
    apart = torch.cdist(mixed, mixed) + torch.eye(4)
    assert apart.min() > 1e-4


def test_rows_are_independent(mixer: Any) -> None:
    index, action = indices(6), actions("continuous", 6)
    mixed = mixer.look_up(index, action)
    for row in range(6):
        alone = mixer.look_up(index[row : row + 1], action[row : row + 1])
        torch.testing.assert_close(alone[0], mixed[row], rtol=0, atol=1e-6)


def test_it_learns_an_interaction_of_codes_and_action(mixer: Any) -> None:
    """A network on top learns whether a code and the action agree."""
    index, chosen = indices(256), torch.arange(256) % ACTIONS
    agrees = (index[:, 2] % ACTIONS == chosen).double()
    action = ActionSpace(ACTIONS).encode(chosen).double()
    reading = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, 1)).double()
    optimizer = torch.optim.Adam([*mixer.parameters(), *reading.parameters()], lr=1e-2)
    for _ in range(150):
        logit = reading(mixer.look_up(index, action)).squeeze(-1)
        loss = functional.binary_cross_entropy_with_logits(logit, agrees)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert ((logit > 0) == agrees.bool()).float().mean() > 0.95


@pytest.mark.parametrize("name", members(mixers))
def test_any_member_is_chosen_by_name_and_works_in_a_world(name: str, kind: str) -> None:
    recipe = override(load("step-vq-t", "nano").recipe, [f"world.mixer={name}"])
    space = ActionSpace(ACTIONS, discrete=kind == "discrete")
    world: Any = recipe.world.build(frame_shape=FrameShape(32, 32), action_space=space)
    assert type(world.mixer) is main_component(import_member(mixers, name))
    frame, opens = torch.zeros(2, 32, 32, 3, dtype=torch.uint8), torch.ones(2, dtype=torch.bool)
    carry = world.observe(frame, space.zeros(2), opens, None)
    carry, _ = world.step(carry, space.zeros(2))
    assert world.view(carry).feature.shape == (2, *world.feature_shape)
