"""Token worlds against the same written plainly: one row, one episode, no cache, no masks."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from token_world_parts import build, hidden_states, segment
from torch import Tensor
from torch.nn import functional

from tokenworlds.core.types import Context, Segment, to_frames

NAMES = ["iris", "delta_iris"]
STEPS = 6


@dataclass
class Line:
    """Tokens of one episode as vectors, and what each place is to foresee."""

    x: list[Tensor]
    token: dict[int, int]
    action: list[int]


def write(world: Any, frames: Tensor, action: Tensor, index: Tensor | None = None) -> Line:
    """Frames [T C H W], one more than actions or as many, in line."""
    iris = type(world).__name__ == "Iris"
    return write_iris(world, frames, action, index) if iris else write_delta(world, frames, action)


def write_iris(world: Any, frames: Tensor, action: Tensor, index: Tensor | None) -> Line:
    dynamics, line = world.dynamics, Line([], {}, [])
    tokens = world.tokenizer.encode(frames).index if index is None else index
    for t in range(len(tokens)):
        for token in tokens[t]:
            line.token[len(line.x) - 1] = int(token)
            line.x.append(dynamics.token(token))
        if t < len(action):
            line.action.append(len(line.x))
            line.x.append(dynamics.action(world.action_space.encode(action[t])))
    line.token.pop(-1)
    return line


def write_delta(world: Any, frames: Tensor, action: Tensor) -> Line:
    dynamics, line = world.dynamics, Line([], {}, [])
    encoded = world.action_space.encode(action)
    for t in range(len(frames)):
        image = dynamics.image(frames[t])
        line.x.append(image if t == 0 or world.config.with_image_tokens else image * 0)
        if t < len(action):
            line.action.append(len(line.x))
            line.x.append(dynamics.action(encoded[t]))
        if t + 1 < len(frames):
            codes = world.tokenizer.encode(frames[t + 1], Context(frames[t], encoded[t]))
            for token in codes.index:
                line.token[len(line.x) - 1] = int(token)
                line.x.append(dynamics.token(token))
    return line


def episodes(seen: Segment, row: int) -> list[range]:
    """The real steps of a row, parted where episodes open."""
    opens = [t for t in range(STEPS) if t == 0 or seen.first[row, t]]
    ends = [*opens[1:], int(seen.mask[row].sum())]
    return [range(a, b) for a, b in zip(opens, ends, strict=True)]


def with_padding(seen: Segment) -> Segment:
    seen.mask[2, 4:] = False
    return seen


@pytest.mark.parametrize(
    ("name", "blind"), [("iris", False), *(("delta_iris", b) for b in (False, True))]
)
@torch.no_grad()
def test_losses_are_those_of_each_episode_alone(name: str, blind: bool) -> None:
    changes: dict[str, Any] = {"with_image_tokens": False} if blind else {}
    world = build(name, **changes)
    seen = with_padding(segment(3, STEPS, firsts=(0, 2, 5)))
    sums: dict[str, list[Tensor]] = {"tokens": [], "reward": [], "termination": []}
    for row in range(3):
        for steps in episodes(seen, row):
            part = slice(steps.start, steps.stop)
            line = write(world, to_frames(seen.frame[row, part]), seen.action[row, part])
            hidden = hidden_states(world.dynamics.sequence, torch.stack(line.x))
            for place, token in line.token.items():
                logits = world.dynamics.next_token(hidden[place])
                sums["tokens"].append(functional.cross_entropy(logits, torch.tensor(token)))
            after = hidden[line.action]
            sums["reward"] += world.dynamics.reward(after).loss(seen.reward[row, part])
            sums["termination"] += world.dynamics.termination(after).loss(
                seen.terminated[row, part]
            )
    means = world.losses(seen).means()
    assert means.keys() == sums.keys()
    for term, mean in means.items():
        torch.testing.assert_close(mean, torch.stack(sums[term]).mean(), atol=1e-5, rtol=0)


def recorded_dream(world: Any, seen: Segment, steps: int) -> tuple[list[Tensor], Tensor, Any]:
    """Logits of every token, actions, and the tokens or frames of a dream."""
    logits: list[Tensor] = []
    hook = world.dynamics.next_token.register_forward_hook(lambda *given: logits.append(given[2]))
    action = torch.randint(0, 3, (len(seen.frame), steps), generator=torch.Generator())
    carry, made = world.start(seen, steps), []
    features = [world.view(carry).feature]
    for t in range(steps):
        carry, dream = world.step(carry, action[:, t], torch.Generator().manual_seed(t))
        made.append(carry.index if hasattr(carry, "index") else carry.frame)
        features.append(dream.feature)
    hook.remove()
    return logits, action, (torch.stack(made, 1), torch.stack(features, 1))


@pytest.mark.parametrize("context", [0, 2])
@pytest.mark.parametrize("opening", [0, 3, 5])
@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_a_dream_with_a_cache_is_one_without(name: str, opening: int, context: int) -> None:
    """Row 0 has an episode that opens early, within the context, or at the last frame."""
    world, seen, steps = build(name, context=context), segment(2, STEPS, (opening,)), 4
    logits, action, (made, features) = recorded_dream(world, seen, steps)
    for row in range(2):
        begin = max(STEPS - 1 - context, opening if row == 0 else 0)
        done = torch.cat([seen.action[row, begin : STEPS - 1], action[row]])
        real = to_frames(seen.frame[row, begin:])
        if name == "iris":
            index = torch.cat([world.tokenizer.encode(real).index, made[row]])
            line = write(world, real, done, index)
            places = sorted(line.token)[-4 * steps :]
        else:
            line = follow(world, real, done, made[row], logits, row)
            places = sorted(line.token)[-4 * steps :]
        hidden = hidden_states(world.dynamics.sequence, torch.stack(line.x))
        expected = world.dynamics.next_token(hidden[places])
        found = torch.stack([each[row] for each in logits])
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(features[row, -1], hidden[-1], atol=1e-5, rtol=0)


def follow(
    world: Any, real: Tensor, done: Tensor, made: Tensor, logits: list[Tensor], row: int
) -> Line:
    """The line of a dream of changes, whose tokens are drawn again from the logits given."""
    line = write_delta(world, real, done[: len(real) - 1])
    frame, encoded = real[-1], world.action_space.encode(done)
    for t in range(len(made)):
        done_now = encoded[len(real) - 1 + t]
        line.x.append(world.dynamics.action(done_now))
        index = redrawn(logits[4 * t : 4 * t + 4], t)[row]
        for token in index:
            line.token[len(line.x) - 1] = int(token)
            line.x.append(world.dynamics.token(token))
        codes = world.tokenizer.look_up(index)
        drawn = world.tokenizer.decode(codes, Context(frame, done_now))
        frame = made[t]
        torch.testing.assert_close(frame * 255, (frame * 255).round(), atol=1e-4, rtol=0)
        assert (frame - drawn).abs().max() < 0.5 / 255 + 1e-5
        line.x.append(world.dynamics.image(frame))
    return line


def redrawn(logits: list[Tensor], seed: int) -> Tensor:
    """The tokens that a generator draws after an ending was drawn from it."""
    generator, index = torch.Generator().manual_seed(seed), []
    torch.bernoulli(torch.full((len(logits[0]),), 0.5), generator=generator)
    for each in logits:
        chance = torch.rand(len(each), 1, generator=generator)
        index.append((each.softmax(-1).cumsum(-1) < chance).sum(-1))
    return torch.stack(index, -1)
