"""One update of PPO in 16 dreams of 50 steps: how often frames are drawn, and how many lessons."""

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
    facts = {"feature_shape": world.feature_shape, "frame_shape": shape, "action_space": space}
    policy = variant(recipe, {"behaviour.horizon": 50, "behaviour.minibatch": 256}).behaviour
    learner = policy.build(**facts)
    drawn: list[object] = []
    world.tokenizer.decoder.register_forward_hook(lambda *call: drawn.append(call))
    segment = blank(16, 5, shape)
    lessons = list(learner.losses(world, segment, torch.Generator().manual_seed(0)))
    print(len(drawn), len(lessons))


main(sys.argv[1])
