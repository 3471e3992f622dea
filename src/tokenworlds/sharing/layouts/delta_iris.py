"""The file `last.pt` of Δ-IRIS (Micheli et al., 2024): one state dict, for Atari or Crafter."""

import re
from collections.abc import Iterator

from torch import Tensor

from tokenworlds.sharing.layouts.layout import Layout, Table, both, joined, plain

ENCODER = {"residual": (1, 3, 4, 6, 8), "halving": (2, 5, 7), "shortcut": (4, 8)}
DECODER = {"residual": (1, 3, 5, 6, 8), "doubling": (2, 4, 7), "shortcut": (1, 5)}
"""The numbers of layers, which are ours as well, except for the last one."""
ENCODER_ACTION = "tokenizer.encoder_act_emb.weight"
DECODER_ACTION = "tokenizer.decoder_act_emb.weight"
PLANES = {ENCODER_ACTION: (1, 64, 64), DECODER_ACTION: (4, 8, 8)}
"""Channels, rows and columns of the planes of an action."""
WORLD = "world.dynamics"


def shape_planes(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """The embeddings of actions as planes; other shapes stay as they are, and are refused later."""
    shaped = dict(found)
    for name, (channels, height, width) in PLANES.items():
        rows = found.get(name)
        if rows is not None and rows.shape[1:] == (channels * height * width,):
            shaped[name] = rows.reshape(-1, channels, height, width)
    return shaped


def stack(ours: str, theirs: str, layers: dict[str, tuple[int, ...]]) -> Iterator[Table]:
    """A convolution, residual blocks and changes of size, a norm and a convolution."""
    yield both(f"{ours}.0", f"{theirs}.0")
    for number in layers["residual"]:
        for our_part, their_part in enumerate((0, 2, 3, 5)):
            yield both(f"{ours}.{number}.layers.{our_part}", f"{theirs}.{number}.f.{their_part}")
    for number in layers["shortcut"]:
        yield both(f"{ours}.{number}.shortcut", f"{theirs}.{number}.skip_projection")
    for number in (*layers.get("halving", ()), *layers.get("doubling", ())):
        yield both(f"{ours}.{number}", f"{theirs}.{number}.conv")
    yield both(f"{ours}.9", f"{theirs}.9")
    # Their SiLU has a number of its own.
    yield both(f"{ours}.10", f"{theirs}.11")


def tokenizer() -> Iterator[Table]:
    ours, theirs = "world.tokenizer", "tokenizer"
    quantizer = f"{theirs}.quantizer"
    yield from stack(f"{ours}.encoder.layers", f"{theirs}.encoder.encoder", ENCODER)
    yield from stack(f"{ours}.past.layers", f"{theirs}.frame_cnn.encoder", ENCODER)
    yield from stack(f"{ours}.decoder.layers", f"{theirs}.decoder.decoder", DECODER)
    yield both(f"{ours}.project", f"{quantizer}.pre_quant_proj")
    yield both(f"{ours}.expand", f"{quantizer}.post_quant_proj")
    yield {
        f"{ours}.encoder_action.weight": (ENCODER_ACTION,),
        f"{ours}.decoder_action.weight": (DECODER_ACTION,),
        f"{ours}.codebook.vectors": (f"{quantizer}.codebook",),
        f"{ours}.codebook.usage": (f"{quantizer}.codewords_freqs",),
        f"{ours}.codebook.updates": (f"{quantizer}.num_codebook_updates",),
    }


def block(ours: str, theirs: str) -> Iterator[Table]:
    inputs = (f"{theirs}.sa.{name}" for name in ("query", "key", "value"))
    yield both(f"{ours}.attention_norm", f"{theirs}.sa.ln")
    yield both(f"{ours}.attention.input", *inputs)
    yield both(f"{ours}.attention.output", f"{theirs}.sa.attention.proj")
    yield both(f"{ours}.feedforward_norm", f"{theirs}.mlp.ln")
    yield both(f"{ours}.feedforward.0", f"{theirs}.mlp.mlp.0")
    yield both(f"{ours}.feedforward.2", f"{theirs}.mlp.mlp.2")


def world() -> Iterator[Table]:
    theirs = "world_model"
    yield from stack(f"{WORLD}.image.encoder.layers", f"{theirs}.frame_cnn.0.encoder", ENCODER)
    yield both(f"{WORLD}.image.norm", f"{theirs}.frame_cnn.2")
    yield plain(f"{WORLD}.sequence.positions", f"{theirs}.transformer.pos_emb")
    yield plain(f"{WORLD}.action", f"{theirs}.act_emb")
    yield plain(f"{WORLD}.token", f"{theirs}.latents_emb")
    for number in range(3):
        ours = f"{WORLD}.sequence.blocks.{number}"
        yield from block(ours, f"{theirs}.transformer.blocks.{number}")
    yield both(f"{WORLD}.sequence.norm", f"{theirs}.transformer.ln")
    heads = {"next_token": "latents", "reward.network": "rewards", "termination.network": "ends"}
    for ours, head in heads.items():
        module = f"{theirs}.head_{head}.head_module"
        yield both(f"{WORLD}.{ours}.hidden", f"{module}.0")
        yield both(f"{WORLD}.{ours}.output", f"{module}.2")


def policy(ours: str, theirs: str) -> Iterator[Table]:
    yield from stack(f"{ours}.encoder.layers.layers", f"{theirs}.cnn.0.encoder", ENCODER)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        yield {f"{ours}.recurrence.{name}": (f"{theirs}.lstm.{name}",)}
    yield both(f"{ours}.actor", f"{theirs}.actor_linear")
    yield both(f"{ours}.critic", f"{theirs}.critic_linear")


POLICIES = {
    "behaviour.network": "actor_critic.model",
    "behaviour.target": "actor_critic.target_model",
}
DELTA_IRIS = Layout(
    recipe="delta-iris",
    size="paper",
    source="a file of the released implementation of Δ-IRIS",
    table=joined(
        [*tokenizer(), *world(), *(row for pair in POLICIES.items() for row in policy(*pair))]
    ),
    ignored=re.compile(r"world_model\..*\.(mask|indices)"),
    zeros=frozenset(),
    actions="actor_critic.model.actor_linear.weight",
    prepare=shape_planes,
)
