"""Optimisers against their published update rules, clipping, warm-up and restored states."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from tokenworlds.core.errors import UserError
from tokenworlds.nets.optimisers import LaProp, Optimiser


@pytest.mark.parametrize("rate_in_momentum", [True, False])
def test_laprop_follows_its_equations(rate_in_momentum: bool) -> None:
    weight = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = LaProp([weight], betas=(0.9, 0.99), eps=1e-8, rate_in_momentum=rate_in_momentum)
    expected, momentum, square = weight.detach().clone(), torch.zeros(2), torch.zeros(2)
    gradients, rates = ([1.0, -4.0], [0.5, 2.0], [-3.0, 0.0]), (0.0, 0.1, 0.2)
    for step, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        g = torch.tensor(gradient, dtype=torch.float64)
        weight.grad = g.clone()
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        inner, outer = (rate, 1.0) if rate_in_momentum else (1.0, rate)
        square = 0.99 * square + 0.01 * g**2
        normalised = g / ((square / (1 - 0.99**step)).sqrt() + 1e-8)
        momentum = 0.9 * momentum + 0.1 * inner * normalised
        expected = expected - outer * momentum / (1 - 0.9**step)
    torch.testing.assert_close(weight.detach(), expected)


def linear(rate: float = 0.1, **choices: object) -> tuple[nn.Linear, Optimiser]:
    torch.manual_seed(0)
    module = nn.Linear(3, 1)
    config = Optimiser.Config(rate=rate, warm_up=1, **choices)  # type: ignore[arg-type]
    return module, config.build(module=module)


@pytest.mark.parametrize("kind", ["laprop", "adam"])
def test_descends(kind: str) -> None:
    module, optimiser = linear(kind=kind, epsilon=1e-8)
    x = torch.randn(64, 3)
    target = x @ torch.tensor([[1.0], [-2.0], [0.5]])
    for _ in range(300):
        optimiser.step((module(x) - target).square().mean())
    assert (module(x) - target).square().mean() < 1e-2


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    module, optimiser = linear()
    before = module.weight.detach().clone()
    with pytest.raises(FloatingPointError, match="nan"):
        optimiser.step(module(torch.full((1, 3), float("nan"))).sum())
    assert torch.equal(module.weight, before)
    assert optimiser.updates == 0


def test_warm_up_is_linear() -> None:
    module, optimiser = linear(rate=1.0)
    object.__setattr__(optimiser, "config", Optimiser.Config(rate=1.0, warm_up=4))
    rates = []
    for _ in range(6):
        optimiser.step(module(torch.ones(1, 3)).sum())
        rates.append(optimiser.optimizer.param_groups[0]["lr"])
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_warm_up_from_zero_starts_with_a_rate_of_zero() -> None:
    module = nn.Linear(3, 1)
    optimiser = Optimiser.Config(rate=1.0, warm_up=4, warm_up_from_zero=True).build(module=module)
    before, rates = module.weight.detach().clone(), []
    for _ in range(6):
        optimiser.step(module(torch.ones(1, 3)).sum())
        rates.append(optimiser.optimizer.param_groups[0]["lr"])
        if len(rates) == 1:
            assert torch.equal(module.weight, before)
    assert rates == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]


def test_an_early_rate_applies_to_the_first_updates_only() -> None:
    module, optimiser = linear(rate=0.5, early_rate=2.0, early_updates=3, rates={"bias": 8.0})
    rates = []
    for _ in range(5):
        optimiser.step(module(torch.ones(1, 3)).sum())
        rates.append(chosen(module, optimiser, "lr"))
    assert [rate["weight"] for rate in rates] == [2.0, 2.0, 2.0, 0.5, 0.5]
    assert {rate["bias"] for rate in rates} == {8.0}


def chosen(module: nn.Module, optimiser: Optimiser, what: str) -> dict[str, float]:
    """A setting of each parameter."""
    return {
        name: group[what]
        for group in optimiser.optimizer.param_groups
        for name, parameter in module.named_parameters()
        if any(parameter is member for member in group["params"])
    }


def test_parts_may_have_their_own_rates_and_epsilons() -> None:
    module = nn.ModuleDict({name: nn.Linear(1, 1) for name in ("tokenizer", "reward", "rest")})
    config = Optimiser.Config(
        rate=1e-3, rates={"tokenizer": 1e-1}, epsilons={"reward": 1e-2}, epsilon=1e-8, warm_up=1
    )
    optimiser = config.build(module=module)
    rates, epsilons = (chosen(module, optimiser, what) for what in ("lr", "eps"))
    for part in ("weight", "bias"):
        assert rates[f"tokenizer.{part}"] == 1e-1
        assert rates[f"reward.{part}"] == rates[f"rest.{part}"] == 1e-3
        assert epsilons[f"reward.{part}"] == 1e-2
        assert epsilons[f"tokenizer.{part}"] == epsilons[f"rest.{part}"] == 1e-8


def test_a_rate_for_an_unknown_part_is_an_error() -> None:
    with pytest.raises(UserError, match=r"part with a rate.*'weigth'.*did you mean 'weight'"):
        linear(rates={"weigth": 1.0})
    with pytest.raises(UserError, match=r"part with an epsilon.*'baas'.*did you mean 'bias'"):
        linear(epsilons={"baas": 1.0})


def test_a_small_loss_scale_is_a_large_epsilon() -> None:
    """Adam moves by m / (sqrt(v) + eps): a loss times 1e-6 with 1e-8 is the loss with 1e-2."""
    x = torch.randn(100, 8, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ends = []
    for weight, epsilon in ((1e-6, 1e-8), (1.0, 1e-2)):
        torch.manual_seed(0)
        module = nn.Linear(3, 1).double()
        config = Optimiser.Config(kind="adam", rate=1e-3, epsilon=epsilon, warm_up=0, clip=None)
        optimiser = config.build(module=module)
        for batch in x:
            optimiser.step(weight * (module(batch) - 1).square().mean())
        ends.append(module.weight.detach().clone())
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-9, atol=0)
    torch.manual_seed(0)
    assert (ends[0] - nn.Linear(3, 1).weight).abs().max() > 1e-2


def test_without_a_clip_any_finite_gradient_passes() -> None:
    for clip, expected in ((1.0, 1.0), (None, 1e6)):
        module, optimiser = linear(clip=clip)
        norm = optimiser.step(1e6 * module.weight[0, 0])
        assert module.weight.grad is not None
        assert (norm.item(), module.weight.grad[0, 0].item()) == pytest.approx((1e6, expected))
    with pytest.raises(FloatingPointError, match="inf"):
        optimiser.step(float("inf") * module.weight.sum())


def test_adaptive_clipping_limits_each_tensor_by_its_own_norm() -> None:
    tensors = {
        "long": torch.tensor([3.0, 4.0]),
        "short": torch.tensor([3.0, 4.0]),
        "zero": torch.zeros(2),
        "idle": torch.ones(2),
    }
    module = nn.ParameterDict(tensors)
    optimiser = Optimiser.Config(agc=0.5, clip=None).build(module=module)
    slopes = {"long": (6.0, 8.0), "short": (0.6, 0.8), "zero": (0.0, 1.0)}
    loss = sum((module[name] @ torch.tensor(slope) for name, slope in slopes.items()))
    norm = optimiser.step(loss)
    assert norm.item() == pytest.approx((100 + 1 + 1) ** 0.5)
    assert module["long"].grad.tolist() == pytest.approx([1.5, 2.0])
    assert torch.equal(module["short"].grad, torch.tensor([0.6, 0.8]))
    assert module["zero"].grad.tolist() == pytest.approx([0.0, 0.5e-3])
    assert module["idle"].grad is None
    assert optimiser.optimizer.state[module["long"]]["square"].tolist() == pytest.approx(
        [1e-3 * 1.5**2, 1e-3 * 2.0**2]
    )


def test_a_restored_state_goes_where_the_parameters_are() -> None:
    module, optimiser = linear()
    optimiser.step(module(torch.ones(1, 3)).sum())
    elsewhere = nn.Linear(3, 1, device="meta")
    resumed = optimiser.config.build(module=elsewhere)
    resumed.restore(optimiser.state())
    slots = resumed.optimizer.state[elsewhere.weight]
    assert {name: slot.device.type for name, slot in slots.items()} == {
        "step": "cpu",
        "momentum": "meta",
        "square": "meta",
    }


@pytest.mark.parametrize("kind", ["laprop", "adam"])
def test_a_restored_optimiser_continues_bit_for_bit(kind: str) -> None:
    early = {"early_rate": 0.3, "early_updates": 4}
    module, optimiser = linear(kind=kind, **early)
    x = torch.randn(8, 3)
    for _ in range(3):
        optimiser.step(module(x).square().mean())
    copy, resumed = linear(kind=kind, **early)
    copy.load_state_dict(module.state_dict())
    resumed.restore(optimiser.state())
    for _ in range(3):
        optimiser.step(module(x).square().mean())
        resumed.step(copy(x).square().mean())
    assert torch.equal(module.weight, copy.weight)
    assert torch.equal(module.bias, copy.bias)


def test_fused_adam_is_adam() -> None:
    """Against the equations of Adam with decoupled weight decay, in float32."""
    torch.manual_seed(0)
    module = nn.Linear(5, 4, bias=False)
    config = Optimiser.Config(kind="adam", rate=0.01, epsilon=1e-8, decay=0.1, warm_up=1, clip=None)
    optimiser, expected = config.build(module=module), module.weight.detach().clone()
    mean, square = torch.zeros(4, 5), torch.zeros(4, 5)
    for step in range(1, 6):
        target = torch.randn(4, 5)
        optimiser.step((module.weight - target).square().sum())
        gradient = 2 * (expected - target)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        scale = (square / (1 - 0.999**step)).sqrt() + 1e-8
        expected = expected * (1 - 0.01 * 0.1) - 0.01 * mean / (1 - 0.9**step) / scale
    torch.testing.assert_close(module.weight.detach(), expected, rtol=1e-6, atol=1e-6)


def test_a_loss_that_is_not_finite_changes_nothing_even_if_its_gradient_is() -> None:
    module, optimiser = linear()
    before = module.weight.detach().clone()
    with pytest.raises(FloatingPointError, match="loss is inf"):
        optimiser.step(module.weight.sum() + float("inf"))
    assert torch.equal(module.weight, before)


def test_a_restored_state_has_the_memory_layout_of_its_parameter() -> None:
    """A fused kernel passes over the memory of both at once."""
    ends = []
    for stops in (False, True):
        torch.manual_seed(0)
        module = nn.Conv2d(3, 4, 3)
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        config = Optimiser.Config(kind="adam", rate=0.1, epsilon=1e-8, warm_up=1)
        optimiser, x = config.build(module=module), torch.randn(1, 3, 5, 5)
        optimiser.step(module(x).square().mean())
        if stops:
            saved = {name: slot.contiguous() for name, slot in optimiser.state().items()}
            optimiser = config.build(module=module)
            optimiser.restore(saved)
        optimiser.step(module(x).square().mean())
        ends.append(module.weight.detach().clone())
    assert torch.equal(*ends)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": -1e-4}, "rate=-0.0001 is not allowed: it takes 0 or more"),
        ({"rate": math.nan}, "rate=nan is not allowed"),
        ({"rate": math.inf}, "rate=inf is not allowed"),
        ({"rates": {"actor": -1.0}}, r"rates\.actor=-1\.0 is not allowed"),
        ({"early_rate": -1.0}, "early_rate=-1.0 is not allowed"),
        ({"epsilon": -1e-8}, "epsilon=-1e-08 is not allowed"),
        ({"epsilons": {"actor": math.nan}}, r"epsilons\.actor=nan is not allowed"),
        ({"decay": -0.1}, "decay=-0.1 is not allowed"),
        ({"warm_up": -1}, "warm_up=-1 is not allowed"),
        ({"early_updates": -1}, "early_updates=-1 is not allowed"),
        ({"clip": 0.0}, "clip=0.0 is not allowed: it takes null or above 0"),
        ({"clip": math.nan}, "clip=nan is not allowed"),
        ({"agc": -0.3}, "agc=-0.3 is not allowed"),
        ({"betas": (0.9, 1.0)}, r"betas=\(0\.9, 1\.0\) is not allowed: each takes 0 to below 1"),
        ({"betas": (-0.1, 0.9)}, "betas=.* is not allowed"),
    ],
)
def test_settings_out_of_range_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Optimiser.Config(**settings)
