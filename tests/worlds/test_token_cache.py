"""Codes are worked out once while their tokenizer stands still, and make no difference else."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from counted_frames import count_frames
from token_world_parts import build, segment
from torch import Tensor

from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import Segment
from tokenworlds.training.token_cache import Coding, TokenCache

WORLDS = ("iris", "delta_iris")
STREAMS, STEPS = 2, 12
CPU = torch.device("cpu")


def windows(starts: list[tuple[int, int]], length: int) -> tuple[Segment, np.ndarray]:
    """Of environments of noise."""
    store = segment(STREAMS, STEPS)
    parts = [
        map_tensors(lambda leaf, s=stream, t=time: leaf[s : s + 1, t : t + length], store)
        for stream, time in starts
    ]
    whole = map_tensors(lambda *leaves: torch.cat(leaves), parts[0], *parts[1:])
    return whole, np.array(starts)


def told(known: TokenCache, seen: Segment, starts: np.ndarray) -> Tensor:
    """The codes that a segment is completed with."""
    codes = known.complete(seen, starts).codes
    assert codes is not None
    return codes


def plain(world: Any, seen: Segment) -> Tensor:
    """Each frame coded on its own segment, all of them."""
    wanted = torch.ones_like(seen.mask)
    wanted[:, : world.token_context] = False
    codes: Tensor = world.tokens_of(seen, wanted)
    return codes


@pytest.mark.parametrize("name", WORLDS)
def test_codes_that_are_known_are_those_of_the_frames(name: str) -> None:
    world = build(name)
    assert isinstance(world, Coding)
    known = TokenCache(world, CPU)
    for starts in ([(0, 0), (1, 3)], [(1, 1), (0, 4), (1, 1)], [(0, 2), (1, 7)]):
        seen, places = windows(starts, 5)
        codes = told(known, seen, places)
        found = codes[:, world.token_context :].flatten(0, 1)
        assert torch.equal(found, plain(world, seen))
        assert len(found.unique()) > 2


@pytest.mark.parametrize("name", WORLDS)
def test_no_frame_is_coded_twice(name: str) -> None:
    world = build(name)
    asked, known = count_frames(world), TokenCache(world, CPU)
    back = world.token_context
    known.complete(*windows([(0, 0), (0, 2), (0, 0)], 5))
    assert asked == [7 - back]  # Steps 0 to 6 of one stream, in three overlapping windows.
    known.complete(*windows([(0, 1), (0, 2)], 5))
    assert asked == [7 - back]
    known.complete(*windows([(0, 4), (1, 0)], 5))
    assert asked == [7 - back, 2 + 5 - back]


@pytest.mark.parametrize("name", WORLDS)
def test_when_the_tokenizer_has_learned_all_is_coded_anew(name: str) -> None:
    world = build(name)
    asked, known = count_frames(world), TokenCache(world, CPU)
    seen = windows([(1, 2)], 5)
    known.complete(*seen)
    with torch.no_grad():
        for parameter in world.tokenizer.parameters():
            parameter.add_(torch.randn_like(parameter))
    known.forget()
    codes = told(known, *seen)
    assert asked == [5 - world.token_context] * 2
    assert torch.equal(codes[0, world.token_context :], plain(world, seen[0]))


@pytest.mark.parametrize("name", WORLDS)
def test_what_is_known_survives_in_a_state(name: str) -> None:
    world = build(name)
    asked = count_frames(world)
    before, after = TokenCache(world, CPU), TokenCache(world, CPU)
    after.restore(before.state())
    seen = windows([(0, 1), (1, 3)], 5)
    codes = told(before, *seen)
    after.restore(before.state())
    asked.clear()
    assert torch.equal(told(after, *seen), codes)
    assert not asked
    after.complete(*windows([(0, 0)], 5))
    # Of a change the frame before is needed too: the first of a window is not known by it.
    assert asked == [1]
    assert torch.equal(told(before, *seen), codes)


@pytest.mark.parametrize("name", WORLDS)
def test_what_is_learned_and_dreamt_is_the_same(name: str) -> None:
    world = build(name)
    seen, places = windows([(0, 0), (1, 3), (1, 4)], 6)
    seen = replace(seen, first=torch.rand(3, 6, generator=torch.Generator().manual_seed(0)) < 0.3)
    knowing = TokenCache(world, CPU).complete(seen, places)
    with torch.no_grad():
        terms = [world.losses(each).terms for each in (seen, knowing)]
        for term in terms[0]:
            torch.testing.assert_close(terms[1][term], terms[0][term], rtol=1e-5, atol=1e-5)
        shown = [world.policy_frames(each) for each in (seen, knowing)]
        torch.testing.assert_close(shown[1], shown[0], rtol=1e-5, atol=1e-5)
        dreams = [dream(world, each) for each in (seen, knowing)]
    torch.testing.assert_close(dreams[1], dreams[0], rtol=1e-5, atol=1e-5)


def dream(world: Any, seen: Segment) -> Tensor:
    """Frames of two steps from the end of a segment."""
    carry, generator = world.start(seen, 2), torch.Generator().manual_seed(0)
    frames = [world.view(carry).frame]
    for _ in range(2):
        action = torch.zeros(len(seen.first), dtype=torch.long)
        carry, dreamt = world.step(carry, action, generator)
        frames.append(dreamt.frame)
    return torch.stack(frames)
