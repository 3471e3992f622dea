"""Every world there is, in small; members are found, not listed."""

from typing import Any

import torch

from tokenworlds import worlds
from tokenworlds.core.overrides import import_member, main_component, members
from tokenworlds.core.types import ActionSpace, FrameShape, Segment
from tokenworlds.heads.outcomes import MapSignReward
from tokenworlds.nets.codebooks import AveragedCodebook, UnitCodebook
from tokenworlds.nets.residual import FrameEncoder
from tokenworlds.nets.strided import StridedEncoder
from tokenworlds.priors.factorised import Factorised
from tokenworlds.sequence.convlstm import ConvLSTM
from tokenworlds.sequence.token_transformer import TokenTransformer
from tokenworlds.sequence.transformer import Transformer
from tokenworlds.tokenizers.attentive_vq import AttentiveVQ
from tokenworlds.tokenizers.bernoulli_vq import BernoulliVQ
from tokenworlds.tokenizers.delta import Delta
from tokenworlds.tokenizers.vq import VQ

SIDE = 16
SPACES = {"discrete": ActionSpace(3), "continuous": ActionSpace(2, discrete=False)}
LEVELS: dict[str, Any] = {"multipliers": (1, 2), "halvings": (True, True)}
FRAMES = FrameEncoder.Config(width=8, latent=8, **LEVELS)
TOKENS = TokenTransformer.Config(width=32, layers=2, heads=2, positions=48, dropout=0.0)
SMALL: dict[str, dict[str, Any]] = {
    "latent": {
        "tokenizer": VQ.Config(filters=(8, 16), strides=(2, 2), kernel=3, groups=4),
        "sequence": Transformer.Config(width=32, layers=2, heads=2, dropout=0.0),
        "prior": Factorised.Config(),
    },
    "iris": {
        "tokenizer": AttentiveVQ.Config(
            width=8, levels=4, blocks=1, attention=(4,), codes=16, code_width=8
        ),
        "sequence": TOKENS,
        "context": 4,
    },
    "delta_iris": {
        "tokenizer": Delta.Config(
            encoder=FRAMES, past=FRAMES, codebook=UnitCodebook.Config(codes=16, width=8)
        ),
        "sequence": TOKENS,
        "image": FrameEncoder.Config(width=8, latent=2, **LEVELS),
        "context": 4,
    },
    "grid": {
        "tokenizer": BernoulliVQ.Config(
            encoder=StridedEncoder.Config(filters=(8, 8), blocks=1),
            codebook=AveragedCodebook.Config(codes=8, width=4),
        ),
        "sequence": ConvLSTM.Config(channels=8, kernel=3),
        "prior": Factorised.Config(shared=True, objective="cross-entropy"),
        "reward": MapSignReward.Config(channels=4, hidden=8),
        "frames": 2,
    },
    "rssm": {
        **{"deter": 32, "hidden": 16, "latents": 4, "classes": 4, "blocks": 4},
        **{"depth": 4, "multipliers": (2, 2), "kernel": 3},
    },
}
"""The choices of each member; one that is not named here is built as it is."""
DREAMLESS = {"real"}
"""Members without a model; they promise nothing of dreams but to refuse them."""


def names() -> list[str]:
    return members(worlds)


def build(name: str, space: ActionSpace) -> Any:
    torch.manual_seed(0)
    owner: Any = main_component(import_member(worlds, name))
    config = owner.Config(**SMALL.get(name, {}))
    return config.build(frame_shape=FrameShape(SIDE, SIDE), action_space=space).eval()


def segment(space: ActionSpace, batch: int = 3, steps: int = 5, seed: int = 1) -> Segment:
    """Noise; the first row has an episode that opens at step 2."""
    generator = torch.Generator().manual_seed(seed)
    no = torch.zeros(batch, steps, dtype=torch.bool)
    first = no.clone()
    first[0, 2] = True
    frame = torch.randint(0, 256, (batch, steps, SIDE, SIDE, 3), generator=generator)
    return Segment(
        frame=frame.to(torch.uint8),
        first=first,
        action=actions(space, batch, steps),
        reward=torch.randn(batch, steps, generator=generator),
        terminated=no,
        truncated=no,
        mask=~no,
    )


def actions(space: ActionSpace, *lead: int, seed: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if space.discrete:
        return torch.randint(0, space.size, lead, generator=generator)
    return torch.rand(*lead, space.size, generator=generator) * 2 - 1
