"""The token worlds have the papers' parameter counts."""

from typing import Any

from torch import nn

from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.heads.outcomes import SignReward
from tokenworlds.nets.residual import FrameEncoder
from tokenworlds.sequence.token_transformer import TokenTransformer
from tokenworlds.tokenizers.attentive_vq import AttentiveVQ
from tokenworlds.tokenizers.delta import Delta
from tokenworlds.worlds.delta_iris import DeltaIris
from tokenworlds.worlds.iris import Iris


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def counts(dynamics: nn.Module) -> dict[str, int]:
    return {name: count(part) for name, part in dynamics.named_children()}


def test_iris_has_the_parameter_counts_of_the_paper() -> None:
    config = Iris.Config(tokenizer=AttentiveVQ.Config(), sequence=TokenTransformer.Config())
    world = config.build(frame_shape=FrameShape(64, 64), action_space=ActionSpace(18))
    assert counts(world.dynamics) == {
        "sequence": 7_898_112 + 87_040,
        "action": 18 * 256,
        "token": 512 * 256,
        "next_token": 197_376,
        "reward": 66_563,
        "termination": 66_306,
    }
    assert count(world.dynamics) == 8_451_077


def paper_delta(width: int, heads: int, positions: int, latent: int, **changes: Any) -> Any:
    sequence = TokenTransformer.Config(
        width=width, layers=3, heads=heads, positions=positions, dropout=0.0
    )
    image = FrameEncoder.Config(width=32, latent=latent)
    return DeltaIris.Config(tokenizer=Delta.Config(), sequence=sequence, image=image, **changes)


def test_delta_iris_for_crafter_has_the_parameter_counts_of_the_paper() -> None:
    config = paper_delta(512, 8, 126, 8)
    world = config.build(frame_shape=FrameShape(64, 64), action_space=ActionSpace(17))
    assert counts(world.dynamics) == {
        "sequence": 9_522_688,
        "action": 8_704,
        "token": 524_288,
        "next_token": 787_968,
        "reward": 393_471,
        "termination": 263_682,
        "image": 446_632 + 1_024,
    }
    assert count(world.dynamics) == 11_948_457


def test_delta_iris_for_atari_has_the_parameter_counts_of_the_paper() -> None:
    config = paper_delta(256, 4, 156, 4, reward=SignReward.Config())
    world = config.build(frame_shape=FrameShape(64, 64), action_space=ActionSpace(18))
    assert counts(world.dynamics) == {
        "sequence": 2_409_728,
        "action": 4_608,
        "token": 262_144,
        "next_token": 328_960,
        "reward": 66_563,
        "termination": 66_306,
        "image": 442_020 + 512,
    }
    assert count(world.dynamics) == 3_580_841
