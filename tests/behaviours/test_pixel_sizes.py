"""A pixel actor-critic has as many parameters as those of IRIS and Δ-IRIS."""

import dataclasses

from tokenworlds.behaviours.pixel_actor_critic import PixelActorCritic
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.nets.pixel_encoders import PoolingEncoder


def count(config: PixelActorCritic.Config, actions: int) -> int:
    facts = {"frame_shape": FrameShape(64, 64), "action_space": ActionSpace(actions)}
    agent = config.build(feature_shape=(1,), **facts)
    return sum(p.numel() for p in agent.parameters() if p.requires_grad)


def test_parameters_are_those_of_the_papers() -> None:
    crafter = PixelActorCritic.Config()
    atari = dataclasses.replace(crafter, value="scalar")
    iris = dataclasses.replace(atari, encoder=PoolingEncoder.Config(), target_decay=None)
    assert count(crafter, 17) == 3_745_216
    assert count(atari, 18) == 3_615_427
    assert count(iris, 18) == 3_225_139
