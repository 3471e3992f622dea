"""Dreams as arrays: what the world model expects to follow an observation."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from torch import Generator, Tensor

from tokenworlds.agent import Agent as AgentModule
from tokenworlds.api.observations import check_actions, check_frames
from tokenworlds.core.errors import UserError
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import Segment
from tokenworlds.evaluation.dreams import to_uint8


@dataclass(frozen=True, slots=True)
class Dream:
    """What follows each imagined action; a batch of dreams has one axis more in front.

    `terminations` are probabilities, or samples of 0 and 1 in worlds that sample them (IRIS,
    Δ-IRIS). A dream goes on after a termination.
    """

    frames: UInt8[np.ndarray, "*batch T H W C"]
    rewards: Float[np.ndarray, "*batch T"]
    terminations: Float[np.ndarray, "*batch T"]
    actions: NDArray[Any]

    def __len__(self) -> int:
        """The number of imagined steps."""
        return int(self.rewards.shape[-1])


@torch.no_grad()
def imagine(
    module: AgentModule,
    obs: Any,
    actions: Any,
    steps: int | None,
    past_actions: Any,
    generator: Generator,
    temperature: float,
) -> Dream:
    """See `Agent.imagine`."""
    given = None if actions is None else check_actions(actions, module.action_space, (1, 2))
    segment, batched = read_history(module, obs, past_actions)
    length = count_steps(given, steps, batched_axis=1 if module.action_space.discrete else 2)
    if given is not None:
        has_rows = given.ndim == (2 if module.action_space.discrete else 3)
        batched = batched or has_rows
        segment, given = match_rows(segment, given if has_rows else given[None])
    imagined = list(module.imagine(segment, length, given, generator, temperature))
    frames = torch.stack([step.after.frame for step in imagined], dim=1)
    parts = (
        torch.stack([step.outcome.reward for step in imagined], dim=1),
        torch.stack([step.outcome.terminated for step in imagined], dim=1),
        torch.stack([step.action for step in imagined], dim=1),
    )
    arrays = (to_uint8(frames), *(part.cpu().numpy() for part in parts))
    return Dream(*(arrays if batched else (array[0] for array in arrays)))


def count_steps(given: Tensor | None, steps: int | None, batched_axis: int) -> int:
    """The length of a dream, from the actions or from `steps`."""
    if given is None:
        if steps is None or steps < 1:
            raise UserError(f"imagine takes actions, or steps=1 or more, not steps={steps}")
        return steps
    length = given.shape[given.ndim - batched_axis]
    if length < 1 or steps not in (None, length):
        raise UserError(f"imagine takes 1 action or more: {length} actions and steps={steps}")
    return int(length)


def read_history(module: AgentModule, obs: Any, past_actions: Any) -> tuple[Segment, bool]:
    """Observations and the actions between them as a segment, and whether they are a batch."""
    frames = check_frames(obs, module.frame_shape, (0, 1, 2))
    batched = frames.ndim == 5
    frames = frames if batched else frames.reshape(1, -1, *frames.shape[-3:])
    rows, length = frames.shape[:2]
    action = module.action_space.zeros(rows, length)
    if length > 1:
        action[:, :-1] = read_past(module, past_actions, rows, length - 1)
    elif past_actions is not None and np.size(past_actions):
        raise UserError("past_actions are those between the frames of obs: one frame takes none")
    return segment_of(frames, action), batched


def segment_of(frames: UInt8[np.ndarray, "B T H W C"], action: Tensor) -> Segment:
    """Steps of which only frames and actions are known. The first one opens the history."""
    flags = torch.zeros(frames.shape[:2], dtype=torch.bool)
    first = flags.clone()
    first[:, 0] = True
    seen = torch.from_numpy(np.ascontiguousarray(frames))
    return Segment(seen, first, action, torch.zeros(frames.shape[:2]), flags, flags, ~flags)


def read_past(module: AgentModule, past_actions: Any, rows: int, count: int) -> Tensor:
    """The actions between the frames of a history."""
    wanted = f"a history of {count + 1} frames takes past_actions, the {count} between them"
    if past_actions is None:
        raise UserError(wanted)
    past = check_actions(past_actions, module.action_space, (1, 2), "past_actions")
    axis = past.ndim - (1 if module.action_space.discrete else 2)
    if past.shape[axis] != count or (axis == 1 and len(past) != rows):
        raise UserError(f"past_actions has shape {tuple(past.shape)}: {wanted}")
    return past


def match_rows(segment: Segment, given: Tensor) -> tuple[Segment, Tensor]:
    """Repeat a single history for many action sequences, or a single one for many histories."""
    rows, wanted = len(segment.first), len(given)
    if rows == wanted:
        return segment, given
    if rows == 1:
        index = torch.zeros(wanted, dtype=torch.long)
        return map_tensors(lambda leaf: leaf[index], segment), given
    if wanted == 1:
        return segment, given.expand(rows, *given.shape[1:])
    raise UserError(f"{wanted} rows of actions for {rows} histories: both take the same number")
