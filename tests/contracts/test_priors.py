"""The contract of every prior of codes; members are found by walking the package."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from tokenworlds import priors
from tokenworlds.core.overrides import components, import_member, module_names
from tokenworlds.core.protocols import Prior
from tokenworlds.core.types import Codes
from tokenworlds.priors.factorised import Factorised

CONTINUOUS = {"GaussianPrior"}
"""Priors of continuous latents, which have tests of their own."""
DIMENSIONS = {"width": 12, "tokens": 4, "vocabulary": 5}
SMALL = {"embedding": 16, "layers": 2, "heads": 2, "feedforward": 16, "channels": 8, "kernel": 3}
MASK = torch.tensor([[True, True, False], [True, False, False]])


def members() -> list[type[Any]]:
    modules = [import_member(priors, name) for name in module_names(priors)]
    found = [member for module in modules for member in components(module)]
    return [member for member in found if member.__name__ not in CONTINUOUS]


def configs() -> dict[str, Any]:
    """Every prior with its defaults, and variants that behave differently."""
    plain = {member.__name__: member.Config() for member in members()}
    return {**plain, "Factorised-shared": Factorised.Config(shared=True)}


def build(config: Any, **choices: Any) -> Any:
    torch.manual_seed(0)
    names = {field.name for field in dataclasses.fields(config)}
    kept = {name: value for name, value in {**SMALL, **choices}.items() if name in names}
    return dataclasses.replace(config, **kept).build(**DIMENSIONS)


@pytest.fixture(params=configs().values(), ids=list(configs()))
def config(request: pytest.FixtureRequest) -> Any:
    return request.param


def codes_of(logits: Tensor) -> Codes:
    log_probs = logits.log_softmax(-1)
    probs = log_probs.exp()
    return Codes(log_probs.detach().argmax(-1), log_probs, probs, probs, probs)


def batch(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    feature = torch.randn(2, 3, 12, generator=generator)
    return feature, torch.randn(2, 3, 4, 5, generator=generator)


def test_members_are_found() -> None:
    assert {"Factorised", "MaskGIT", "PixelCNN"} <= {member.__name__ for member in members()}


def test_it_is_a_prior(config: Any) -> None:
    assert isinstance(build(config), Prior)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (0,)])
def test_samples_have_the_stated_shape_and_range(config: Any, lead: tuple[int, ...]) -> None:
    index = build(config).sample(torch.randn(*lead, 12), torch.Generator().manual_seed(0))
    assert index.shape == (*lead, 4)
    assert index.dtype == torch.long
    assert ((index >= 0) & (index < 5)).all()


def test_samples_are_a_function_of_the_generator(config: Any) -> None:
    prior, feature = build(config), torch.randn(50, 12)
    seeds = (1, 1, 2)
    before = torch.get_rng_state()
    sampled = [prior.sample(feature, torch.Generator().manual_seed(seed)) for seed in seeds]
    assert torch.equal(sampled[0], sampled[1])
    assert not torch.equal(sampled[0], sampled[2])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("over", ["frame", "batch"])
def test_padding_is_ignored_by_losses_and_metrics(config: Any, over: str) -> None:
    prior = build(config, free_bits_over=over)
    results = []
    for seed in (1, 2):
        valid, other = batch(0), batch(seed)
        feature, logits = (
            torch.where(MASK.view(2, 3, *[1] * (a.dim() - 2)), a, b)
            for a, b in zip(valid, other, strict=True)
        )
        torch.manual_seed(3)
        losses = prior.losses(feature, codes_of(logits), MASK)
        assert all(term.shape == (2, 3) for term in losses.terms.values())
        results.append({**losses.means(), **losses.metrics})
    for name, value in results[0].items():
        torch.testing.assert_close(value, results[1][name], msg=name)


@pytest.mark.parametrize("over", ["frame", "batch"])
def test_each_term_moves_its_own_side(config: Any, over: str) -> None:
    prior = build(config, free_bits=0.0, free_bits_over=over)
    feature, logits = (part.requires_grad_() for part in batch())
    terms = prior.losses(feature, codes_of(logits), MASK).means()
    assert terms.keys() == {"dynamics", "representation"}
    ours = [feature, *prior.parameters()]
    for name, moved, still in (
        ("dynamics", ours, [logits]),
        ("representation", [logits], ours),
    ):
        grads = torch.autograd.grad(
            terms[name], [*moved, *still], allow_unused=True, retain_graph=True
        )
        assert all(grad is not None and grad.any() for grad in grads[: len(moved)]), name
        assert all(grad is None for grad in grads[len(moved) :]), name


def test_cross_entropy_has_one_term(config: Any) -> None:
    prior = build(config, objective="cross-entropy")
    feature, logits = batch()
    assert prior.losses(feature, codes_of(logits), MASK).terms.keys() == {"dynamics"}


def test_computing_losses_changes_nothing(config: Any) -> None:
    prior = build(config)
    before = {name: value.clone() for name, value in prior.state_dict().items()}
    feature, logits = batch()
    losses = prior.losses(feature, codes_of(logits), MASK)
    assert losses.after == ()
    for name, value in prior.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_certain_frame_is_learned(config: Any) -> None:
    prior = build(config, free_bits=0.0, unimix=0.0)
    # The slices differ, because a prior may treat all tokens alike.
    slices = torch.tensor([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    feature = slices.flatten() + 0.1 * torch.randn(8, 3, 12)
    frame = torch.tensor([4, 0, 2, 2]).expand(8, 3, 4)
    codes = codes_of(30.0 * torch.nn.functional.one_hot(frame, 5).float())
    mask = torch.ones(8, 3, dtype=torch.bool)
    optimiser = torch.optim.Adam(prior.parameters(), lr=1e-2)
    found = [prior.losses(feature, codes, mask).means()["dynamics"]]
    while found[-1] > 0.1 and len(found) < 800:
        optimiser.zero_grad()
        found[-1].backward()
        optimiser.step()
        found.append(prior.losses(feature, codes, mask).means()["dynamics"])
    assert found[0] > 4.0
    assert found[-1] <= 0.1
    index = prior.sample(feature.expand(50, 8, 3, 12), torch.Generator().manual_seed(0))
    assert (index == frame).float().mean() > 0.9
