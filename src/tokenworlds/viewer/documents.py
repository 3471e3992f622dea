"""Agents, frames and states as JSON for the pages."""

import base64
import io
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from tokenworlds.agent import OpenedAgent
from tokenworlds.core.inspection import Assessment, HoldsTokens
from tokenworlds.core.protocols import World
from tokenworlds.core.types import Carry, Outcome
from tokenworlds.sharing.saving import training_of
from tokenworlds.viewer.action_names import action_names
from tokenworlds.worlds.real import Real


def describe_agent(opened: OpenedAgent, replay_steps: int) -> dict[str, Any]:
    """What a page must know before it asks for anything."""
    agent, env, training = opened.agent, opened.env, training_of(opened)
    tokenizer = getattr(agent.world, "tokenizer", None)
    return {
        "env": "" if env is None else env.name,
        "recipe": "" if training is None else f"{training.recipe} {training.size}",
        "discrete": agent.action_space.discrete,
        "actions": action_names("" if env is None else env.name, agent.action_space),
        "replay_steps": replay_steps,
        "dreams": not isinstance(agent.world, Real),
        "grid": getattr(tokenizer, "grid", None),
        "changes": bool(getattr(agent.world, "token_context", 0)),
        "height": agent.frame_shape.height,
        "width": agent.frame_shape.width,
    }


def describe_assessment(assessment: Assessment | None) -> dict[str, Any]:
    policy = None if assessment is None or assessment.policy is None else assessment.policy.mean
    return {
        "value": None if assessment is None else float(assessment.value[0]),
        "policy": None if policy is None else numbers(policy[0]),
    }


def describe_outcome(outcome: Outcome | None) -> dict[str, Any]:
    return {
        "reward": None if outcome is None else float(outcome.reward[0]),
        "terminated": None if outcome is None else float(outcome.terminated[0]),
    }


def describe_tokens(world: World, carry: Carry) -> dict[str, Any]:
    """The tokens of a state; None for a world without tokens, or before the first change."""
    index = world.tokens_in(carry) if isinstance(world, HoldsTokens) else None
    known = index is not None and int(index[0, 0]) >= 0
    return {"tokens": index[0].tolist() if index is not None and known else None}


def numbers(values: Float[Tensor, " n"]) -> list[float]:
    """Rounded to six digits: pages show fewer."""
    return [float(f"{float(each):.6g}") for each in values]


def to_data_url(frame: UInt8[np.ndarray, "H W C"]) -> str:
    picture = Image.fromarray(frame[..., 0] if frame.shape[-1] == 1 else frame)
    written = io.BytesIO()
    picture.save(written, "PNG", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
