"""Latent worlds at size nano on small random frames, for tests."""

from typing import Any

import torch
from torch import Tensor

from tokenworlds.core.config import variant
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import ActionSpace, FrameShape, Segment, to_frames
from tokenworlds.recipes.catalogue import load
from tokenworlds.worlds.latent import Latent

STEPS = 7


def build(name: str = "step-vq-m", space: ActionSpace | None = None, **changes: Any) -> Latent:
    torch.manual_seed(0)
    config = {f"world.{key}": value for key, value in changes.items()}
    recipe = variant(load(name, "nano").recipe, config)
    dimensions = {"frame_shape": FrameShape(32, 32), "action_space": space or ActionSpace(3)}
    world = recipe.world.build(**dimensions)
    assert isinstance(world, Latent)
    spread_codebook(world)
    return world.eval()


def spread_codebook(world: Latent) -> None:
    """Spread the codebook over noise, so that different frames have different tokens."""
    noise = to_frames(segment(batch=8).frame)
    for follow in world.tokenizer.losses(
        noise, world.tokenizer.encode(noise), torch.ones(8, STEPS, dtype=torch.bool)
    ).after:
        follow()


def segment(batch: int = 3, steps: int = STEPS, firsts: tuple[int, ...] = (3,)) -> Segment:
    generator = torch.Generator().manual_seed(1)
    first = torch.zeros(batch, steps, dtype=torch.bool)
    for place in firsts:
        first[0, place] = True
    flags = torch.zeros(batch, steps, dtype=torch.bool)
    frame = torch.randint(0, 256, (batch, steps, 32, 32, 3), generator=generator)
    return Segment(
        frame=frame.to(torch.uint8),
        first=first,
        action=torch.randint(0, 3, (batch, steps), generator=generator),
        reward=torch.randn(batch, steps, generator=generator),
        terminated=flags,
        truncated=flags,
        mask=~flags,
    )


def observe_all(world: Latent, real: Segment) -> list[Tensor]:
    """The feature at each step of an agent that observes the frames one by one."""
    carry, features = None, []
    for t in range(real.first.shape[1]):
        before = real.action[:, t - 1] if t else torch.zeros_like(real.action[:, 0])
        reset = real.first[:, t] if t else torch.ones_like(real.first[:, 0])
        carry = world.observe(real.frame[:, t], before, reset, carry)
        features.append(world.view(carry).feature)
    return features


def window(real: Segment, end: int) -> Segment:
    return map_tensors(lambda leaf: leaf[:, :end], real)
