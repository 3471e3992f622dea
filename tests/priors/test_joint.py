"""Tokens that hang together given the history: what each prior can make of them."""

import dataclasses
from functools import cache
from typing import Any

import pytest
import torch
from joint_law import NOISE, TOKENS, UNIFORM, VOCABULARY, WIDTH, distance, laws, sampled, train

from tokenworlds.priors.factorised import Factorised
from tokenworlds.priors.maskgit import MaskGIT

FACTS = {"width": WIDTH, "tokens": TOKENS, "vocabulary": VOCABULARY}
SMALL = MaskGIT.Config(embedding=32, layers=2, heads=4, feedforward=64, free_bits=0.0, unimix=0.0)
BOUNDS = ((1 - NOISE) * 8 / 9, (1 - NOISE) * 7 / 9)


@cache
def trained_weights() -> dict[str, Any]:
    torch.manual_seed(0)
    prior: MaskGIT = train(SMALL.build(**FACTS), updates=600, rate=1e-3)
    return prior.state_dict()


@cache
def trained_factorised() -> Factorised:
    torch.manual_seed(0)
    config = Factorised.Config(free_bits=0.0, unimix=0.0)
    prior: Factorised = train(config.build(**FACTS), updates=200, rate=1e-2)
    return prior


def maskgit(**rounds: int) -> MaskGIT:
    prior = dataclasses.replace(SMALL, **rounds).build(**FACTS)  # type: ignore[arg-type]
    prior.load_state_dict(trained_weights())
    return prior


@pytest.mark.parametrize("law", [0, 1])
def test_the_best_product_of_marginals_is_uniform_and_far_off(law: int) -> None:
    assert distance(UNIFORM, laws()[law]) == pytest.approx(BOUNDS[law])


@pytest.mark.parametrize("law", [0, 1])
def test_a_factorised_prior_reaches_its_bound_and_no_more(law: int) -> None:
    found = sampled(trained_factorised(), law)
    assert distance(found, UNIFORM) < 0.05
    assert distance(found, laws()[law]) == pytest.approx(BOUNDS[law], abs=0.04)


@pytest.mark.parametrize("law", [0, 1])
def test_maskgit_drawn_token_by_token_follows_the_joint_law(law: int) -> None:
    assert distance(sampled(maskgit(draft=TOKENS, repetitions=0), law), laws()[law]) < 0.05


@pytest.mark.parametrize("law", [0, 1])
def test_revisions_mend_a_draft_made_at_once(law: int) -> None:
    found = sampled(maskgit(draft=1, revise=TOKENS, repetitions=6), law)
    assert distance(found, laws()[law]) < 0.05


@pytest.mark.parametrize("law", [0, 1])
def test_maskgit_drawn_at_once_is_factorised(law: int) -> None:
    found = sampled(maskgit(), law)
    assert distance(found, UNIFORM) < 0.05
    assert distance(found, laws()[law]) == pytest.approx(BOUNDS[law], abs=0.04)
