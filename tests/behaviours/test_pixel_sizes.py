"""The pixel actor-critics of IRIS and Δ-IRIS have the papers' parameter counts."""

import dataclasses

from tokenworlds.behaviours.pixel_actor_critic import PixelActorCritic
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.nets.pixel_encoders import PoolingEncoder


def count(config: PixelActorCritic.Config, actions: int) -> int:
    dimensions = {"frame_shape": FrameShape(64, 64), "action_space": ActionSpace(actions)}
    agent = config.build(feature_shape=(1,), **dimensions)
    return sum(p.numel() for p in agent.parameters() if p.requires_grad)


def test_parameter_counts_are_those_of_the_papers() -> None:
    crafter = PixelActorCritic.Config()
    atari = dataclasses.replace(crafter, value="scalar")
    iris = dataclasses.replace(atari, encoder=PoolingEncoder.Config(), target_decay=None)
    assert count(crafter, 17) == 3_745_216
    assert count(atari, 18) == 3_615_427
    assert count(iris, 18) == 3_225_139
