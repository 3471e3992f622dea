import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tokenworlds.core.types import ActionSpace, FrameShape, Segment
from tokenworlds.nets.distributions import TwoHot
from tokenworlds.nets.dreamer import BlockLinear
from tokenworlds.worlds.rssm import RSSM, BlockGRU

SPACE = ActionSpace(3)
SHAPE = FrameShape(16, 16)
TINY = RSSM.Config(deter=32, hidden=16, latents=4, classes=5, depth=4, multipliers=(2, 4), kernel=3)


def world(**changes: object) -> RSSM:
    torch.manual_seed(0)
    built: RSSM = replace(TINY, **changes).build(frame_shape=SHAPE, action_space=SPACE)  # type: ignore[arg-type]
    return built


def segment(rows: int = 2, steps: int = 6, first: tuple[int, ...] = (), seed: int = 0) -> Segment:
    generator = torch.Generator().manual_seed(seed)
    lead = (rows, steps)
    no = torch.zeros(lead, dtype=torch.bool)
    opens = no.clone()
    opens[:, list(first)] = True
    return Segment(
        torch.randint(256, (*lead, 16, 16, 3), generator=generator, dtype=torch.uint8),
        opens,
        torch.randint(3, lead, generator=generator),
        torch.randn(lead, generator=generator),
        no,
        no,
        ~no,
    )


def test_block_weights_have_the_deviation_of_the_total_input_width() -> None:
    torch.manual_seed(0)
    weight = BlockLinear(1024, 2048, 8).weight
    assert weight.std().item() * math.sqrt(1024) == pytest.approx(1, abs=0.01)
    assert weight.abs().max().item() <= 2 * 1.1368 / math.sqrt(1024)


def test_a_block_linear_layer_is_a_block_diagonal_matrix() -> None:
    torch.manual_seed(0)
    layer = BlockLinear(6, 4, 2)
    x = torch.randn(3, 2, 3)
    dense = torch.block_diag(*layer.weight)
    expected = x.flatten(1) @ dense + layer.bias
    torch.testing.assert_close(layer(x).flatten(1), expected)


def test_the_gru_keeps_its_state_where_the_update_gate_is_closed() -> None:
    torch.manual_seed(0)
    core = BlockGRU(deter=16, stoch=6, actions=3, hidden=8, blocks=4)
    update = torch.zeros(4, 3, 4)
    update[:, 2] = -1e9
    core.gates.bias.data = update.flatten()
    deter = torch.randn(2, 16)
    torch.testing.assert_close(core(deter, torch.randn(2, 6), torch.randn(2, 3)), deter)


def test_an_untrained_world_expects_no_reward() -> None:
    made = world().eval()
    carry = made.start(segment(), 3)
    assert made.outcome(carry).reward.tolist() == [0.0, 0.0]
    loss = TwoHot(made.reward(carry.feature), "symexp").loss(torch.zeros(2))
    torch.testing.assert_close(loss, torch.full((2,), math.log(255)))


def test_states_are_those_of_every_step_but_the_first() -> None:
    losses, states = world().losses_and_states(segment(rows=2, steps=6))
    assert states.deter.shape == (2 * 5, 32)
    assert losses.latents is not None
    assert losses.latents.shape == (2, 5, 32 + 4)
    assert {name: term.shape for name, term in losses.terms.items()} == dict.fromkeys(
        ("reconstruction", "dynamics", "representation", "reward", "termination"), (2, 5)
    )


def test_gradients_of_the_world_reach_every_parameter() -> None:
    made = world(free_nats=0.0)
    made.losses(segment(first=(3,))).total({}).backward()
    # The output layer of the reward head starts at zero, so nothing below it gets a gradient yet.
    without = [
        name for name, p in made.named_parameters() if p.grad is None or not p.grad.abs().any()
    ]
    assert all(name.startswith("reward.") for name in without)


def test_a_step_after_a_reset_does_not_depend_on_what_was_before() -> None:
    made = world().eval()
    ours, theirs = segment(first=(3,), seed=0), segment(first=(3,), seed=1)
    both = zip(fields(theirs), fields(ours), strict=True)
    merged = Segment(*(torch.cat([a[:, :3], b[:, 3:]], 1) for a, b in both))
    left, right = (made._all_states(each).deter[:, 3:] for each in (ours, merged))
    torch.testing.assert_close(left, right)


def fields(steps: Segment) -> list[Tensor]:
    return [
        *(steps.frame, steps.first, steps.action, steps.reward),
        *(steps.terminated, steps.truncated, steps.mask),
    ]


def test_the_latents_of_a_state_restore_it() -> None:
    made = world().eval()
    carry = made.start(segment(), 3)
    again = made._from_latents(made.latents(carry))
    assert torch.equal(again.deter, carry.deter)
    torch.testing.assert_close(again.sample, carry.sample)


def test_a_sequence_goes_on_from_the_latent_of_its_first_step() -> None:
    made, whole = world().eval(), segment(steps=6)
    states = made._all_states(whole)
    latent = made.latents(states)[:, 2]
    part = replace(whole.window(slice(2, None)), latent=latent)
    torch.testing.assert_close(made._all_states(part).deter, states.deter[:, 2:])


def test_the_reward_of_an_episodes_last_step_is_learned_from_the_predicted_state() -> None:
    """Replay holds no frame after the last step: the next frame opens another episode."""
    made = world().eval()
    steps = segment(first=(3,))
    other = replace(steps, frame=steps.frame.clone())
    other.frame[:, 3:] = 0
    terms = [made.losses(each).terms for each in (steps, other)]
    # Index 2 is the arrival after step 2, the last of its episode.
    for name in ("reward", "termination"):
        torch.testing.assert_close(terms[0][name][:, 2], terms[1][name][:, 2])
    made.reward.output.weight.data.normal_()
    terms = [made.losses(each).terms for each in (steps, other)]
    assert not torch.allclose(terms[0]["reward"][:, 3], terms[1]["reward"][:, 3])


def test_the_discount_is_part_of_the_termination() -> None:
    made = world(discount=0.9)
    optimiser = torch.optim.Adam(made.termination.parameters(), 0.05)
    steps = segment(rows=8)
    for _ in range(100):
        optimiser.zero_grad()
        made.losses(steps).means()["termination"].backward()
        optimiser.step()
    carry = made.eval().start(steps, 1)
    torch.testing.assert_close(made.outcome(carry).terminated.mean().item(), 0.1, atol=0.02, rtol=0)
