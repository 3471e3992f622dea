"""What a policy looks at: how much it changes if one token is swapped, or one patch occluded.

A swap replaces a token by others that the same place holds elsewhere in the recording, so that the
state stays one that the agent may meet; a place that never changes gets random tokens. Agents
without tokens see a frame in which a patch has the frame's mean colour.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from tokenworlds.agent import Agent
from tokenworlds.core.errors import UserError
from tokenworlds.core.inspection import AssessesStates, HoldsTokens
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import Carry, View
from tokenworlds.viewer.documents import numbers

SWAPS = 4
"""Other tokens that are tried in each place."""
PATCHES = 8
"""Patches in a row and in a column."""
ROWS = 64
"""Changed states that are assessed at once."""
SMALLEST = 1e-8


@dataclass(frozen=True, slots=True)
class Reading:
    """A real step: its frame, the action before it, and the states before and after both.

    `memory` is that of the behaviour before it assesses the step.
    """

    frame: UInt8[Tensor, "1 H W C"]
    action: Tensor
    reset: Bool[Tensor, " 1"]
    before: Carry | None
    carry: Carry
    memory: Carry
    memory_after: Carry


def swap_tokens(
    agent: Agent, reading: Reading, seen: Sequence[Int[Tensor, " K"]], rng: np.random.Generator
) -> dict[str, Any]:
    """The mean change over the swaps of each token."""
    world = agent.world
    index = world.tokens_in(reading.carry) if isinstance(world, HoldsTokens) else None
    if not isinstance(world, HoldsTokens) or index is None or int(index[0, 0]) < 0:
        raise UserError("this step holds no tokens to swap: occlude patches instead")
    others = replacements(index[0], torch.stack([*seen]), vocabulary_of(agent), rng)
    swapped = index.repeat(index.shape[1] * SWAPS, 1)
    place = torch.arange(index.shape[1], device=index.device).repeat_interleave(SWAPS)
    swapped[torch.arange(len(swapped), device=index.device), place] = others.flatten()

    def view(rows: slice) -> View:
        chosen = torch.cat([index, swapped])[rows]
        return world.view_with(spread(reading.carry, len(chosen)), chosen)

    change = policy_changes(agent, reading.memory, view, 1 + len(swapped))
    return {**change.unflatten(0, (-1, SWAPS)).describe(), "grid": None, "swaps": SWAPS}


def occlude_patches(agent: Agent, reading: Reading) -> dict[str, Any]:
    """The change after each patch of the newest frame was filled with the frame's mean colour."""
    height, width = reading.frame.shape[1:3]
    rows, columns = min(PATCHES, height), min(PATCHES, width)
    frames = [reading.frame]
    fill = reading.frame.float().mean(dim=(1, 2)).round().to(torch.uint8)
    for down in np.array_split(np.arange(height), rows):
        for across in np.array_split(np.arange(width), columns):
            frame = reading.frame.clone()
            frame[:, down[0] : down[-1] + 1, across[0] : across[-1] + 1] = fill
            frames.append(frame)
    changed = torch.cat(frames)

    def view(part: slice) -> View:
        chosen = changed[part]
        count = len(chosen)
        before = None if reading.before is None else spread(reading.before, count)
        action, reset = spread(reading.action, count), spread(reading.reset, count)
        return agent.world.view(agent.world.observe(chosen, action, reset, before))

    change = policy_changes(agent, reading.memory, view, len(changed))
    return {**change.unflatten(0, (-1, 1)).describe(), "grid": [rows, columns], "swaps": 1}


@dataclass(frozen=True, slots=True)
class Changes:
    """How far the policy and the value are from those of the state as it is."""

    policy: Float[Tensor, "*rest"]
    value: Float[Tensor, "*rest"]

    def unflatten(self, dim: int, sizes: tuple[int, int]) -> "Changes":
        return Changes(self.policy.unflatten(dim, sizes), self.value.unflatten(dim, sizes))

    def describe(self) -> dict[str, Any]:
        """Means over the last axis."""
        return {"policy": numbers(self.policy.mean(-1)), "value": numbers(self.value.mean(-1))}


def policy_changes(agent: Agent, memory: Carry, view: Any, count: int) -> Changes:
    """`view` gives the view of some rows; the first is the state as it is."""
    behaviour = agent.behaviour
    if not isinstance(behaviour, AssessesStates):
        raise UserError("this agent does not tell its policy")
    policies, values = [], []
    for begin in range(0, count, ROWS):
        rows = slice(begin, min(begin + ROWS, count))
        found, _ = behaviour.assess(view(rows), spread(memory, rows.stop - rows.start))
        if found.policy is None:
            raise UserError("this agent does not tell its policy")
        policies.append(found.policy.mean)
        values.append(found.value)
    policy, value = torch.cat(policies).float(), torch.cat(values).float()
    far = divergence if agent.action_space.discrete else distance
    return Changes(far(policy[:1], policy[1:]), (value[1:] - value[:1]).abs())


def divergence(real: Float[Tensor, "1 A"], changed: Float[Tensor, "n A"]) -> Float[Tensor, " n"]:
    """The divergence of the real policy from each changed one, in nats."""
    logs = real.clamp_min(SMALLEST).log() - changed.clamp_min(SMALLEST).log()
    return (real * logs).sum(-1).clamp_min(0)


def distance(real: Float[Tensor, "1 A"], changed: Float[Tensor, "n A"]) -> Float[Tensor, " n"]:
    """The largest change of a component of the mean action."""
    return (real - changed).abs().amax(-1)


def replacements(
    index: Int[Tensor, " K"],
    seen: Int[Tensor, "n K"],
    vocabulary: int,
    rng: np.random.Generator,
) -> Int[Tensor, "K swaps"]:
    """Other tokens for each place: those it holds elsewhere first, then random ones."""
    chosen = []
    for place, token in enumerate(index.tolist()):
        elsewhere = np.setdiff1d(seen[:, place].cpu().numpy(), [token])
        at_random = np.setdiff1d(np.arange(vocabulary), [token, *elsewhere])
        known = rng.permutation(elsewhere)[:SWAPS]
        missing = SWAPS - len(known)
        # A vocabulary of a few tokens has to repeat them.
        pool = at_random if len(at_random) else elsewhere
        more = rng.choice(pool, missing, replace=len(pool) < missing)
        chosen.append(np.concatenate([known, more]))
    return torch.from_numpy(np.stack(chosen)).to(index.device)


def vocabulary_of(agent: Agent) -> int:
    tokenizer = getattr(agent.world, "tokenizer", None)
    found = getattr(tokenizer, "vocabulary", None)
    return int(found if found is not None else agent.world.config.classes)  # type: ignore[attr-defined]


def spread(tree: Any, count: int) -> Any:
    """A state as this many equal rows."""
    return map_tensors(lambda leaf: leaf.repeat_interleave(count, 0), tree)
