"""One PPO update in 16 dreams of 50 steps: prints how often frames are decoded, and minibatches."""

import sys
from typing import Any

import torch

from tokenworlds.core.config import variant
from tokenworlds.core.types import ActionSpace, FrameShape, Segment
from tokenworlds.recipes.catalogue import load

NAMES = {"feature": "swm-1frame", "frame": "swm-reconstructions"}


def blank(batch: int, steps: int, shape: FrameShape) -> Segment:
    no = torch.zeros(batch, steps, dtype=torch.bool)
    frame = torch.zeros(batch, steps, shape.height, shape.width, 1, dtype=torch.uint8)
    nothing = torch.zeros(batch, steps)
    return Segment(frame, no, nothing.long(), nothing, no, no, ~no)


def main(looks_at: str) -> None:
    recipe = load(NAMES[looks_at], "nano", "catch").recipe
    shape, space = FrameShape(recipe.resolution, recipe.resolution, 1), ActionSpace(3)
    world: Any = recipe.world.build(frame_shape=shape, action_space=space)
    world.eval()
    dimensions = {"feature_shape": world.feature_shape, "frame_shape": shape, "action_space": space}
    policy = variant(recipe, {"behaviour.horizon": 50, "behaviour.minibatch": 256}).behaviour
    learner: Any = policy.build(**dimensions)
    decoded: list[object] = []
    world.tokenizer.decoder.register_forward_hook(lambda *call: decoded.append(call))
    segment = blank(16, 5, shape)
    minibatches = list(learner.losses(world, segment, torch.Generator().manual_seed(0)))
    print(len(decoded), len(minibatches))


main(sys.argv[1])
