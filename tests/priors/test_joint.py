"""Dependent tokens: how well each prior can represent their joint distribution."""

import dataclasses
from functools import cache
from typing import Any

import pytest
import torch
from joint_law import NOISE, SQUARES, TRIPLES, distance

from tokenworlds.priors.factorised import Factorised
from tokenworlds.priors.maskgit import MaskGIT
from tokenworlds.priors.pixelcnn import PixelCNN

SMALL = MaskGIT.Config(embedding=32, layers=2, heads=4, feedforward=64, free_bits=0.0, unimix=0.0)
BOUNDS = ((1 - NOISE) * 8 / 9, (1 - NOISE) * 7 / 9)


@cache
def trained_weights() -> dict[str, Any]:
    torch.manual_seed(0)
    prior: MaskGIT = TRIPLES.train(SMALL.build(**TRIPLES.dimensions), updates=600, rate=1e-3)
    return prior.state_dict()


@cache
def trained_factorised() -> Factorised:
    torch.manual_seed(0)
    config = Factorised.Config(free_bits=0.0, unimix=0.0)
    prior: Factorised = TRIPLES.train(config.build(**TRIPLES.dimensions), updates=200, rate=1e-2)
    return prior


def maskgit(**rounds: int) -> MaskGIT:
    prior = dataclasses.replace(SMALL, **rounds).build(**TRIPLES.dimensions)  # type: ignore[arg-type]
    prior.load_state_dict(trained_weights())
    return prior


@cache
def trained_pixelcnn() -> PixelCNN:
    torch.manual_seed(0)
    config = PixelCNN.Config(layers=2, channels=16, kernel=3, free_bits=0.0, unimix=0.0)
    prior: PixelCNN = SQUARES.train(config.build(**SQUARES.dimensions), updates=200, rate=1e-2)
    return prior


@pytest.mark.parametrize("law", [0, 1])
def test_the_best_product_of_marginals_is_uniform_and_far_off(law: int) -> None:
    assert distance(TRIPLES.uniform, TRIPLES.chances[law]) == pytest.approx(BOUNDS[law])


@pytest.mark.parametrize("law", [0, 1])
def test_a_factorised_prior_reaches_its_bound_and_no_more(law: int) -> None:
    found = TRIPLES.sampled(trained_factorised(), law)
    assert distance(found, TRIPLES.uniform) < 0.05
    assert distance(found, TRIPLES.chances[law]) == pytest.approx(BOUNDS[law], abs=0.04)


@pytest.mark.parametrize("law", [0, 1])
def test_maskgit_sampled_token_by_token_follows_the_joint_law(law: int) -> None:
    assert (
        distance(
            TRIPLES.sampled(maskgit(draft=TRIPLES.tokens, repetitions=0), law), TRIPLES.chances[law]
        )
        < 0.05
    )


@pytest.mark.parametrize("law", [0, 1])
def test_revisions_repair_a_draft_made_at_once(law: int) -> None:
    found = TRIPLES.sampled(maskgit(draft=1, revise=TRIPLES.tokens, repetitions=6), law)
    assert distance(found, TRIPLES.chances[law]) < 0.05


@pytest.mark.parametrize("law", [0, 1])
def test_maskgit_sampled_at_once_is_factorised(law: int) -> None:
    found = TRIPLES.sampled(maskgit(), law)
    assert distance(found, TRIPLES.uniform) < 0.05
    assert distance(found, TRIPLES.chances[law]) == pytest.approx(BOUNDS[law], abs=0.04)


@pytest.mark.parametrize("law", [0, 1])
def test_pixelcnn_follows_a_joint_law_with_uniform_marginals(law: int) -> None:
    marginals = [
        torch.zeros(3).index_add(0, SQUARES.frames[:, token], SQUARES.chances[law])
        for token in range(SQUARES.tokens)
    ]
    torch.testing.assert_close(torch.stack(marginals), torch.full((4, 3), 1 / 3))
    assert distance(SQUARES.uniform, SQUARES.chances[law]) == pytest.approx((1 - NOISE) * 8 / 9)
    assert distance(SQUARES.sampled(trained_pixelcnn(), law), SQUARES.chances[law]) < 0.05
