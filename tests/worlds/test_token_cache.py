"""Each frame is encoded once between tokenizer updates; results are those without a cache."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from counted_frames import count_frames
from token_world_parts import build, segment
from torch import Tensor

from tokenworlds.core.capabilities import CachesTokens
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import Segment
from tokenworlds.training.trainer import TokenCache

WORLDS = ("iris", "delta_iris")
ENVS, STEPS = 2, 12
CPU = torch.device("cpu")


def windows(starts: list[tuple[int, int]], length: int) -> tuple[Segment, np.ndarray]:
    """Segments of environments with noise as frames, and where they start."""
    store = segment(ENVS, STEPS)
    parts = [
        map_tensors(lambda leaf, e=env, t=time: leaf[e : e + 1, t : t + length], store)
        for env, time in starts
    ]
    whole = map_tensors(lambda *leaves: torch.cat(leaves), parts[0], *parts[1:])
    return whole, np.array(starts)


def tokens_from(cache: TokenCache, real: Segment, starts: np.ndarray) -> Tensor:
    tokens = cache.complete(real, starts).tokens
    assert tokens is not None
    return tokens


def encode_all(world: Any, real: Segment) -> Tensor:
    """The tokens of all frames of a segment, without a cache."""
    wanted = torch.ones_like(real.mask)
    wanted[:, : world.token_context] = False
    tokens: Tensor = world.tokens_of(real, wanted)
    return tokens


@pytest.mark.parametrize("name", WORLDS)
def test_cached_tokens_are_those_of_the_frames(name: str) -> None:
    world = build(name)
    assert isinstance(world, CachesTokens)
    cache = TokenCache(world, CPU)
    for starts in ([(0, 0), (1, 3)], [(1, 1), (0, 4), (1, 1)], [(0, 2), (1, 7)]):
        real, places = windows(starts, 5)
        tokens = tokens_from(cache, real, places)
        found = tokens[:, world.token_context :].flatten(0, 1)
        assert torch.equal(found, encode_all(world, real))
        assert len(found.unique()) > 2


@pytest.mark.parametrize("name", WORLDS)
def test_no_frame_is_encoded_twice(name: str) -> None:
    world = build(name)
    counts, cache = count_frames(world), TokenCache(world, CPU)
    back = world.token_context
    cache.complete(*windows([(0, 0), (0, 2), (0, 0)], 5))
    assert counts == [7 - back]  # Steps 0 to 6 of one environment, in three overlapping segments.
    cache.complete(*windows([(0, 1), (0, 2)], 5))
    assert counts == [7 - back]
    cache.complete(*windows([(0, 4), (1, 0)], 5))
    assert counts == [7 - back, 2 + 5 - back]


@pytest.mark.parametrize("name", WORLDS)
def test_after_a_tokenizer_update_frames_are_encoded_again(name: str) -> None:
    world = build(name)
    counts, cache = count_frames(world), TokenCache(world, CPU)
    real = windows([(1, 2)], 5)
    cache.complete(*real)
    with torch.no_grad():
        for parameter in world.tokenizer.parameters():
            parameter.add_(torch.randn_like(parameter))
    cache.clear()
    tokens = tokens_from(cache, *real)
    assert counts == [5 - world.token_context] * 2
    assert torch.equal(tokens[0, world.token_context :], encode_all(world, real[0]))


@pytest.mark.parametrize("name", WORLDS)
def test_a_restored_cache_has_the_same_tokens(name: str) -> None:
    world = build(name)
    counts = count_frames(world)
    before, after = TokenCache(world, CPU), TokenCache(world, CPU)
    after.restore(before.state())
    real = windows([(0, 1), (1, 3)], 5)
    tokens = tokens_from(before, *real)
    after.restore(before.state())
    counts.clear()
    assert torch.equal(tokens_from(after, *real), tokens)
    assert not counts
    after.complete(*windows([(0, 0)], 5))
    # A change depends on the frame before it: a segment does not give the tokens of its first.
    assert counts == [1]
    assert torch.equal(tokens_from(before, *real), tokens)


@pytest.mark.parametrize("name", WORLDS)
def test_losses_and_dreams_are_the_same_with_cached_tokens(name: str) -> None:
    world = build(name)
    real, places = windows([(0, 0), (1, 3), (1, 4)], 6)
    real = replace(real, first=torch.rand(3, 6, generator=torch.Generator().manual_seed(0)) < 0.3)
    cached = TokenCache(world, CPU).complete(real, places)
    with torch.no_grad():
        terms = [world.losses(each).terms for each in (real, cached)]
        for term in terms[0]:
            torch.testing.assert_close(terms[1][term], terms[0][term], rtol=1e-5, atol=1e-5)
        shown = [world.policy_frames(each) for each in (real, cached)]
        torch.testing.assert_close(shown[1], shown[0], rtol=1e-5, atol=1e-5)
        dreams = [dream(world, each) for each in (real, cached)]
    torch.testing.assert_close(dreams[1], dreams[0], rtol=1e-5, atol=1e-5)


def dream(world: Any, real: Segment) -> Tensor:
    """Frames of two steps from the end of a segment."""
    carry, generator = world.start(real, 2), torch.Generator().manual_seed(0)
    frames = [world.view(carry).frame]
    for _ in range(2):
        action = torch.zeros(len(real.first), dtype=torch.long)
        carry, _ = world.step(carry, action, generator)
        frames.append(world.view(carry).frame)
    return torch.stack(frames)
