"""Small token worlds, segments for them, and their transformer without a cache."""

from collections.abc import Callable
from typing import Any

import torch
from einops import rearrange
from torch import Tensor
from torch.nn import functional

from tokenworlds.core.types import ActionSpace, FrameShape, Segment
from tokenworlds.nets.codebooks import UnitCodebook
from tokenworlds.nets.residual import FrameEncoder
from tokenworlds.sequence.token_transformer import TokenTransformer
from tokenworlds.tokenizers.attentive_vq import AttentiveVQ
from tokenworlds.tokenizers.delta import Delta
from tokenworlds.worlds.delta_iris import DeltaIris
from tokenworlds.worlds.iris import Iris

SIDE = 16
LEVELS: dict[str, Any] = {"multipliers": (1, 2), "halvings": (True, True)}
SEQUENCE = TokenTransformer.Config(width=32, layers=2, heads=2, positions=60, dropout=0.0)


def iris_config(**changes: Any) -> Iris.Config:
    """Four tokens of 16."""
    tokenizer = AttentiveVQ.Config(
        width=8, levels=4, blocks=1, attention=(4,), codes=16, code_width=8
    )
    return Iris.Config(**{"tokenizer": tokenizer, "sequence": SEQUENCE, **changes})


def delta_config(**changes: Any) -> DeltaIris.Config:
    """Four tokens of 16."""
    tokenizer = Delta.Config(
        encoder=FrameEncoder.Config(width=8, latent=8, **LEVELS),
        past=FrameEncoder.Config(width=8, latent=8, **LEVELS),
        codebook=UnitCodebook.Config(codes=16, width=8),
    )
    image = FrameEncoder.Config(width=8, latent=2, **LEVELS)
    given = {"tokenizer": tokenizer, "sequence": SEQUENCE, "image": image, "context": 2}
    return DeltaIris.Config(**{**given, **changes})


CONFIGS: dict[str, Callable[..., Any]] = {"iris": iris_config, "delta_iris": delta_config}


def build(name: str, space: ActionSpace | None = None, **changes: Any) -> Any:
    """A world with weights so large that every input affects its predictions."""
    torch.manual_seed(0)
    dimensions = {"frame_shape": FrameShape(SIDE, SIDE), "action_space": space or ActionSpace(3)}
    world: Any = CONFIGS[name](**changes).build(**dimensions)
    with torch.no_grad():
        for part in world.dynamics.modules():
            if isinstance(part, torch.nn.Linear | torch.nn.Embedding):
                part.weight.copy_(torch.randn_like(part.weight) * 0.2)
        world.dynamics.action.weight.copy_(torch.randn_like(world.dynamics.action.weight) * 0.5)
        if hasattr(world.tokenizer, "codebook"):
            spread_codebook(world, name)
    return world.eval()


def spread_codebook(world: Any, name: str) -> None:
    """Make different frames have different tokens."""
    codebook = world.tokenizer.codebook
    if name == "iris":
        frames = segment(8, 4).frame
        seen = rearrange(frames, "b t h w c -> (b t) c h w").float() / 255
        vectors = world.tokenizer.encode(seen).encoded.flatten(0, 1)
        codebook.weight.copy_(vectors[torch.randperm(len(vectors))[:16]])
    else:
        codebook.vectors.copy_(functional.normalize(torch.randn_like(codebook.vectors), dim=-1))


def segment(batch: int, steps: int, firsts: tuple[int, ...] = (), seed: int = 1) -> Segment:
    """Noise; episodes start at these steps of the first row."""
    generator = torch.Generator().manual_seed(seed)
    no = torch.zeros(batch, steps, dtype=torch.bool)
    first = no.clone()
    for place in firsts:
        first[0, place] = True
    frame = torch.randint(0, 256, (batch, steps, SIDE, SIDE, 3), generator=generator)
    return Segment(
        frame=frame.to(torch.uint8),
        first=first,
        action=torch.randint(0, 3, (batch, steps), generator=generator),
        reward=torch.randn(batch, steps, generator=generator),
        terminated=torch.rand(batch, steps, generator=generator) < 0.3,
        truncated=no,
        mask=~no,
    )


def hidden_states(transformer: TokenTransformer, x: Tensor) -> Tensor:
    """The hidden states of one whole sequence, as in the paper."""
    count, heads = len(x), transformer.stack().__iter__().__next__().attention.heads
    causal = torch.ones(count, count, dtype=torch.bool).tril()
    x = x + transformer.positions.weight[:count]
    for block in transformer.stack():
        joint = block.attention.input(block.attention_norm(x))
        query, key, value = rearrange(joint, "t (n h p) -> n h t p", n=3, h=heads)
        score = query @ key.transpose(1, 2) / query.shape[-1] ** 0.5
        weight = score.masked_fill(~causal, -torch.inf).softmax(-1)
        x = x + block.attention.output(rearrange(weight @ value, "h t p -> t (h p)"))
        x = x + block.feedforward(block.feedforward_norm(x))
    result: Tensor = transformer.norm(x)
    return result
