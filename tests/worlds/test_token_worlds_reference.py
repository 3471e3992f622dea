"""Token worlds against a plain reference: one row, one episode, no cache, no masks."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from token_world_parts import build, hidden_states, segment
from torch import Tensor
from torch.nn import functional

from tokenworlds.core.types import Context, Segment, to_frames
from tokenworlds.worlds.delta_iris import DeltaIrisCarry

NAMES = ["iris", "delta_iris"]
STEPS = 6


@dataclass
class Sequence:
    """One episode: embedded tokens, the token after each place, and the places of actions."""

    x: list[Tensor]
    token: dict[int, int]
    action: list[int]


def sequence_of(
    world: Any, frames: Tensor, action: Tensor, index: Tensor | None = None
) -> Sequence:
    """The sequence of frames [T C H W] and of as many actions, or one less."""
    iris = type(world).__name__ == "Iris"
    return (
        iris_sequence(world, frames, action, index)
        if iris
        else delta_sequence(world, frames, action)
    )


def iris_sequence(world: Any, frames: Tensor, action: Tensor, index: Tensor | None) -> Sequence:
    dynamics, sequence = world.dynamics, Sequence([], {}, [])
    tokens = world.tokenizer.encode(frames).index if index is None else index
    for t in range(len(tokens)):
        for token in tokens[t]:
            sequence.token[len(sequence.x) - 1] = int(token)
            sequence.x.append(dynamics.token(token))
        if t < len(action):
            sequence.action.append(len(sequence.x))
            sequence.x.append(dynamics.action(world.action_space.encode(action[t])))
    sequence.token.pop(-1)
    return sequence


def delta_sequence(world: Any, frames: Tensor, action: Tensor) -> Sequence:
    dynamics, sequence = world.dynamics, Sequence([], {}, [])
    encoded = world.action_space.encode(action)
    for t in range(len(frames)):
        image = dynamics.image(frames[t])
        sequence.x.append(image if t == 0 or world.config.with_image_tokens else image * 0)
        if t < len(action):
            sequence.action.append(len(sequence.x))
            sequence.x.append(dynamics.action(encoded[t]))
        if t + 1 < len(frames):
            codes = world.tokenizer.encode(frames[t + 1], Context(frames[t], encoded[t]))
            for token in codes.index:
                sequence.token[len(sequence.x) - 1] = int(token)
                sequence.x.append(dynamics.token(token))
    return sequence


def episodes(seen: Segment, row: int) -> list[range]:
    """The real steps of a row, split where episodes start."""
    starts = [t for t in range(STEPS) if t == 0 or seen.first[row, t]]
    ends = [*starts[1:], int(seen.mask[row].sum())]
    return [range(a, b) for a, b in zip(starts, ends, strict=True)]


def with_padding(seen: Segment) -> Segment:
    seen.mask[2, 4:] = False
    return seen


@pytest.mark.parametrize(
    ("name", "without_images"), [("iris", False), *(("delta_iris", b) for b in (False, True))]
)
@torch.no_grad()
def test_losses_equal_those_of_separate_episodes(name: str, without_images: bool) -> None:
    changes: dict[str, Any] = {"with_image_tokens": False} if without_images else {}
    world = build(name, **changes)
    seen = with_padding(segment(3, STEPS, firsts=(0, 2, 5)))
    sums: dict[str, list[Tensor]] = {"tokens": [], "reward": [], "termination": []}
    for row in range(3):
        for steps in episodes(seen, row):
            part = slice(steps.start, steps.stop)
            sequence = sequence_of(world, to_frames(seen.frame[row, part]), seen.action[row, part])
            hidden = hidden_states(world.dynamics.sequence, torch.stack(sequence.x))
            for place, token in sequence.token.items():
                logits = world.dynamics.next_token(hidden[place])
                sums["tokens"].append(functional.cross_entropy(logits, torch.tensor(token)))
            after = hidden[sequence.action]
            sums["reward"] += world.dynamics.reward(after).loss(seen.reward[row, part])
            sums["termination"] += world.dynamics.termination(after).loss(
                seen.terminated[row, part]
            )
    means = world.losses(seen).means()
    assert means.keys() == sums.keys()
    for term, mean in means.items():
        torch.testing.assert_close(mean, torch.stack(sums[term]).mean(), atol=1e-5, rtol=0)


def recorded_dream(world: Any, seen: Segment, steps: int) -> tuple[list[Tensor], Tensor, Any]:
    """Logits of all tokens, actions, and the dream's tokens or frames, with its features."""
    logits: list[Tensor] = []
    hook = world.dynamics.next_token.register_forward_hook(lambda *given: logits.append(given[2]))
    action = torch.randint(0, 3, (len(seen.frame), steps), generator=torch.Generator())
    carry, made = world.start(seen, steps), []
    features = [world.view(carry).feature]
    for t in range(steps):
        carry, _ = world.step(carry, action[:, t], torch.Generator().manual_seed(t))
        made.append(carry.frame if isinstance(carry, DeltaIrisCarry) else carry.index)
        features.append(world.view(carry).feature)
    hook.remove()
    return logits, action, (torch.stack(made, 1), torch.stack(features, 1))


@pytest.mark.parametrize("context", [0, 2])
@pytest.mark.parametrize("opening", [0, 3, 5])
@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_a_dream_with_a_cache_equals_one_without(name: str, opening: int, context: int) -> None:
    """In row 0 an episode starts early, within the context, or at the last frame."""
    world, seen, steps = build(name, context=context), segment(2, STEPS, (opening,)), 4
    logits, action, (made, features) = recorded_dream(world, seen, steps)
    for row in range(2):
        begin = max(STEPS - 1 - context, opening if row == 0 else 0)
        done = torch.cat([seen.action[row, begin : STEPS - 1], action[row]])
        real = to_frames(seen.frame[row, begin:])
        if name == "iris":
            index = torch.cat([world.tokenizer.encode(real).index, made[row]])
            sequence = sequence_of(world, real, done, index)
            places = sorted(sequence.token)[-4 * steps :]
        else:
            sequence = follow(world, real, done, made[row], logits, row)
            places = sorted(sequence.token)[-4 * steps :]
        hidden = hidden_states(world.dynamics.sequence, torch.stack(sequence.x))
        expected = world.dynamics.next_token(hidden[places])
        found = torch.stack([each[row] for each in logits])
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(features[row, -1], hidden[-1], atol=1e-5, rtol=0)


def follow(
    world: Any, real: Tensor, done: Tensor, made: Tensor, logits: list[Tensor], row: int
) -> Sequence:
    """The sequence of a dream of changes, with tokens sampled again from the recorded logits."""
    sequence = delta_sequence(world, real, done[: len(real) - 1])
    frame, encoded = real[-1], world.action_space.encode(done)
    for t in range(len(made)):
        done_now = encoded[len(real) - 1 + t]
        sequence.x.append(world.dynamics.action(done_now))
        index = resampled(logits[4 * t : 4 * t + 4], t)[row]
        for token in index:
            sequence.token[len(sequence.x) - 1] = int(token)
            sequence.x.append(world.dynamics.token(token))
        codes = world.tokenizer.look_up(index)
        decoded = world.tokenizer.decode(codes, Context(frame, done_now))
        frame = made[t]
        torch.testing.assert_close(frame * 255, (frame * 255).round(), atol=1e-4, rtol=0)
        assert (frame - decoded).abs().max() < 0.5 / 255 + 1e-5
        sequence.x.append(world.dynamics.image(frame))
    return sequence


def resampled(logits: list[Tensor], seed: int) -> Tensor:
    """The tokens that a generator samples after it has sampled the termination."""
    generator, index = torch.Generator().manual_seed(seed), []
    torch.bernoulli(torch.full((len(logits[0]),), 0.5), generator=generator)
    for each in logits:
        uniform = torch.rand(len(each), 1, generator=generator)
        index.append((each.softmax(-1).cumsum(-1) < uniform).sum(-1))
    return torch.stack(index, -1)
