"""The contract of every behaviour; members are found, not listed."""

import copy
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from tokenworlds import behaviours
from tokenworlds.core.overrides import import_member, main_component, members
from tokenworlds.core.protocols import Behaviour
from tokenworlds.core.trees import named_tensors, restore_tensors, where_rows
from tokenworlds.core.types import ActionSpace, FrameShape, Losses, Segment
from tokenworlds.nets.codebooks import Codebook
from tokenworlds.nets.pixel_encoders import PoolingEncoder
from tokenworlds.nets.policy_networks import GridNetwork
from tokenworlds.priors.factorised import Factorised
from tokenworlds.sequence.mamba2 import Mamba2
from tokenworlds.tokenizers.vq import VQ
from tokenworlds.worlds.latent import Latent

SHAPE, HORIZON, ROWS = FrameShape(8, 8), 3, 4
SMALL: dict[str, dict[str, Any]] = {
    "latent_actor_critic": {"actor": (8,), "critic": (8,)},
    "pixel_actor_critic": {"encoder": PoolingEncoder.Config(filters=(4,)), "recurrent": 8},
    "ppo": {"network": GridNetwork.Config(filters=8, kernel=1, width=8), "minibatch": 5},
}
"""Small configurations; a member without one is built with its defaults."""
WORLD = Latent.Config(
    tokenizer=VQ.Config(
        filters=(4, 8), strides=(2, 2), kernel=3, groups=2, codebook=Codebook.Config(codes=4)
    ),
    sequence=Mamba2.Config(width=16, layers=1, heads=2, state=4),
    prior=Factorised.Config(),
    memory=0,
)


@pytest.fixture(params=["discrete", "continuous"])
def space(request: pytest.FixtureRequest) -> ActionSpace:
    return ActionSpace(3, discrete=request.param == "discrete")


@pytest.fixture
def world(space: ActionSpace) -> Any:
    torch.manual_seed(0)
    return WORLD.build(frame_shape=SHAPE, action_space=space).eval()


@pytest.fixture(params=members(behaviours))
def behaviour(request: pytest.FixtureRequest, world: Any, space: ActionSpace) -> Any:
    torch.manual_seed(1)
    owner: Any = main_component(import_member(behaviours, request.param))
    config = owner.Config(horizon=HORIZON, **SMALL.get(request.param, {}))
    shape = world.feature_shape
    return config.build(feature_shape=shape, frame_shape=SHAPE, action_space=space)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def segment(space: ActionSpace, steps: int = 3) -> Segment:
    """An episode starts in the middle of the second row, another at the last step of the third."""
    nothing = torch.zeros(ROWS, steps, dtype=torch.bool)
    first = nothing.clone()
    first[1, steps // 2] = first[2, -1] = True
    frame = torch.randint(0, 256, (ROWS, steps, 8, 8, 3), generator=generator()).to(torch.uint8)
    flags = {"first": first, "terminated": nothing, "truncated": nothing, "mask": ~nothing}
    return Segment(
        frame=frame, action=space.zeros(ROWS, steps), reward=torch.zeros(ROWS, steps), **flags
    )


def views(world: Any, space: ActionSpace, steps: int) -> list[Any]:
    """The views of consecutive states."""
    carry = world.start(segment(space), steps)
    observed = []
    for step in range(steps):
        observed.append(world.view(carry))
        carry, _ = world.step(carry, space.zeros(ROWS), generator(step))
    return observed


def losses_of(behaviour: Any, *args: Any) -> Iterable[Losses]:
    losses = behaviour.losses(*args)
    return [losses] if isinstance(losses, Losses) else losses


def act_through(
    behaviour: Any, observed: list[Any], carry: Any, seed: int = 0
) -> tuple[Tensor, Any]:
    random, actions = generator(seed), []
    for view in observed:
        action, carry = behaviour.act(view, carry, random)
        actions.append(action)
    return torch.stack(actions), carry


def test_members_are_found() -> None:
    assert {"dreamer_actor_critic", "latent_actor_critic", "pixel_actor_critic", "ppo"} <= set(
        members(behaviours)
    )


def test_it_is_a_behaviour(behaviour: Any) -> None:
    assert isinstance(behaviour, Behaviour)
    assert behaviour.horizon == HORIZON


def test_actions_belong_to_the_space(behaviour: Any, world: Any, space: ActionSpace) -> None:
    actions, _ = act_through(behaviour, views(world, space, 5), behaviour.initial(ROWS))
    if space.discrete:
        assert actions.shape == (5, ROWS)
        assert actions.dtype == torch.long
        assert ((actions >= 0) & (actions < space.size)).all()
    else:
        assert actions.shape == (5, ROWS, space.size)
        assert actions.abs().max() <= 1


def test_the_generator_determines_actions(behaviour: Any, world: Any, space: ActionSpace) -> None:
    observed, start = views(world, space, 8), behaviour.initial(ROWS)
    ours, again, others = (act_through(behaviour, observed, start, seed)[0] for seed in (0, 0, 1))
    assert torch.equal(ours, again)
    assert not torch.equal(ours, others)


def test_temperature_zero_samples_nothing(behaviour: Any, world: Any, space: ActionSpace) -> None:
    view, random = views(world, space, 1)[0], generator()
    before = random.get_state()
    ours, _ = behaviour.act(view, behaviour.initial(ROWS), random, 0.0)
    assert torch.equal(random.get_state(), before)
    assert torch.equal(ours, behaviour.act(view, behaviour.initial(ROWS), generator(1), 0.0)[0])


def test_every_tensor_of_a_carry_has_a_row_for_each_environment(
    behaviour: Any, world: Any, space: ActionSpace
) -> None:
    _, carry = act_through(behaviour, views(world, space, 2), behaviour.initial(ROWS))
    assert all(len(leaf) == ROWS for _, leaf in named_tensors(carry))


def test_a_carry_can_be_saved_and_restored(behaviour: Any, world: Any, space: ActionSpace) -> None:
    observed = views(world, space, 5)
    _, carry = act_through(behaviour, observed[:2], behaviour.initial(ROWS))
    saved = {name: leaf.clone() for name, leaf in named_tensors(carry)}
    restored = restore_tensors(behaviour.initial(ROWS), saved)
    expected = act_through(behaviour, observed[2:], carry)[0]
    assert torch.equal(act_through(behaviour, observed[2:], restored)[0], expected)


def test_a_reset_row_forgets_and_the_others_do_not(
    behaviour: Any, world: Any, space: ActionSpace
) -> None:
    observed, blank = views(world, space, 3), behaviour.initial(ROWS)
    _, old = act_through(behaviour, observed[:2], blank)
    reset = torch.tensor([True, False, True, False])
    ours, _ = behaviour.act(observed[2], where_rows(reset, blank, old), None, 0.0)
    fresh, _ = behaviour.act(observed[2], blank, None, 0.0)
    kept, _ = behaviour.act(observed[2], old, None, 0.0)
    torch.testing.assert_close(ours, where_rows(reset, fresh, kept))


@pytest.mark.parametrize("steps", [1, 2, 9])
def test_losses_of_segments_of_any_length_are_finite(
    behaviour: Any, world: Any, space: ActionSpace, steps: int
) -> None:
    for losses in losses_of(behaviour, world, segment(space, steps), generator()):
        assert losses.terms.keys() == losses.masks.keys()
        for name, term in losses.terms.items():
            assert term.dim() == 2
            assert term.shape == losses.masks[name].shape
            assert term.isfinite().all()
        assert all(value.isfinite().all() for value in losses.metrics.values())


def test_every_imagined_step_is_used_equally_often(
    behaviour: Any, world: Any, space: ActionSpace
) -> None:
    counts: Counter[str] = Counter()
    for losses in losses_of(behaviour, world, segment(space), generator()):
        counts.update({name: term.numel() for name, term in losses.terms.items()})
    times, rest = divmod(counts.total() // len(counts), HORIZON * ROWS)
    assert times >= 1
    assert rest == 0
    assert len(set(counts.values())) == 1


def test_computing_losses_changes_nothing_and_is_repeatable(
    behaviour: Any, world: Any, space: ActionSpace
) -> None:
    before = copy.deepcopy(behaviour.state_dict())
    ours, again = (
        [dict(losses.terms) for losses in losses_of(behaviour, world, segment(space), generator())]
        for _ in range(2)
    )
    torch.testing.assert_close(behaviour.state_dict(), before, rtol=0, atol=0)
    torch.testing.assert_close(ours, again, rtol=0, atol=0)


def test_only_the_behaviour_learns(behaviour: Any, world: Any, space: ActionSpace) -> None:
    """Two updates, because a critic that starts at zero has no gradient at first."""
    optimizer = torch.optim.SGD(behaviour.parameters(), lr=0.1)
    for seed in range(2):
        for losses in losses_of(behaviour, world, segment(space), generator(seed)):
            optimizer.zero_grad()
            sum(losses.means().values(), torch.zeros(())).backward()
            optimizer.step()
    assert all(parameter.grad is None for parameter in world.parameters())
    learned = {name: p for name, p in behaviour.named_parameters() if p.requires_grad}
    assert learned
    assert [name for name, p in learned.items() if p.grad is None or not p.grad.any()] == []
