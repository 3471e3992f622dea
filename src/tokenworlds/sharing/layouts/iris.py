"""The files `{Game}.pt` and `last.pt` of IRIS (Micheli et al., 2023): one state dict."""

import re
from collections.abc import Iterator

from tokenworlds.sharing.layouts.layout import Layout, Table, both, joined, numbered

LEVELS = range(5)
"""Of the tokenizer, from 64 pixels to 4."""
ATTENDING = (2, 3)
BLOCKS = 10
WORLD, NETWORK = "world.dynamics", "behaviour.network"


def convolution(theirs: str) -> Table:
    return both("", theirs)


def residual(theirs: str) -> Table:
    parts = ("norm1", "conv1", "norm2", "conv2")
    return joined(
        both(f".layers.{number}", f"{theirs}.{part}") for number, part in enumerate(parts)
    )


def attention(theirs: str) -> Table:
    query_key_value = both(".input", f"{theirs}.q", f"{theirs}.k", f"{theirs}.v")
    norm, output = both(".norm", f"{theirs}.norm"), both(".output", f"{theirs}.proj_out")
    return norm | query_key_value | output


def level(theirs: str, blocks: int, attends: bool) -> Iterator[Table]:
    for number in range(blocks):
        yield residual(f"{theirs}.block.{number}")
        if attends:
            yield attention(f"{theirs}.attn.{number}")


def middle(theirs: str) -> Iterator[Table]:
    yield residual(f"{theirs}.mid.block_1")
    yield attention(f"{theirs}.mid.attn_1")
    yield residual(f"{theirs}.mid.block_2")


def encoder(theirs: str) -> Iterator[Table]:
    yield convolution(f"{theirs}.conv_in")
    for number in LEVELS:
        if number > 0:
            yield convolution(f"{theirs}.down.{number - 1}.downsample.conv")
        yield from level(f"{theirs}.down.{number}", 2, number in ATTENDING)
    yield from middle(theirs)
    yield from (convolution(f"{theirs}.norm_out"), convolution(f"{theirs}.conv_out"))


def decoder(theirs: str) -> Iterator[Table]:
    """Levels have the numbers of the encoder, and run from the last to the first."""
    yield convolution(f"{theirs}.conv_in")
    yield from middle(theirs)
    for number in reversed(LEVELS):
        if number < LEVELS[-1]:
            yield convolution(f"{theirs}.up.{number + 1}.upsample.conv")
        yield from level(f"{theirs}.up.{number}", 3, number in ATTENDING)
    yield from (convolution(f"{theirs}.norm_out"), convolution(f"{theirs}.conv_out"))


def tokenizer() -> Iterator[Table]:
    ours, theirs = "world.tokenizer", "tokenizer"
    yield from numbered(f"{ours}.encoder.layers", encoder(f"{theirs}.encoder"))
    yield both(f"{ours}.project", f"{theirs}.pre_quant_conv")
    yield {f"{ours}.codebook.weight": (f"{theirs}.embedding.weight",)}
    yield both(f"{ours}.expand", f"{theirs}.post_quant_conv")
    yield from numbered(f"{ours}.decoder.layers", decoder(f"{theirs}.decoder"))


def block(ours: str, theirs: str) -> Iterator[Table]:
    inputs = (f"{theirs}.attn.{name}" for name in ("query", "key", "value"))
    yield both(f"{ours}.attention_norm", f"{theirs}.ln1")
    yield both(f"{ours}.attention.input", *inputs)
    yield both(f"{ours}.attention.output", f"{theirs}.attn.proj")
    yield both(f"{ours}.feedforward_norm", f"{theirs}.ln2")
    yield both(f"{ours}.feedforward.0", f"{theirs}.mlp.0")
    yield both(f"{ours}.feedforward.2", f"{theirs}.mlp.2")


def world() -> Iterator[Table]:
    theirs = "world_model"
    yield {
        f"{WORLD}.sequence.positions.weight": (f"{theirs}.pos_emb.weight",),
        f"{WORLD}.action.weight": (f"{theirs}.embedder.embedding_tables.0.weight",),
        f"{WORLD}.token.weight": (f"{theirs}.embedder.embedding_tables.1.weight",),
    }
    for number in range(BLOCKS):
        ours = f"{WORLD}.sequence.blocks.{number}"
        yield from block(ours, f"{theirs}.transformer.blocks.{number}")
    yield both(f"{WORLD}.sequence.norm", f"{theirs}.transformer.ln_f")
    heads = {
        "next_token": "head_observations",
        "reward.network": "head_rewards",
        "termination.network": "head_ends",
    }
    for ours, head in heads.items():
        yield both(f"{WORLD}.{ours}.hidden", f"{theirs}.{head}.head_module.0")
        yield both(f"{WORLD}.{ours}.output", f"{theirs}.{head}.head_module.2")


def policy() -> Iterator[Table]:
    theirs = "actor_critic"
    for number in range(4):
        # Pooling and ReLU follow each convolution.
        yield both(f"{NETWORK}.encoder.layers.{3 * number}", f"{theirs}.conv{number + 1}")
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        yield {f"{NETWORK}.recurrence.{name}": (f"{theirs}.lstm.{name}",)}
    yield both(f"{NETWORK}.actor", f"{theirs}.actor_linear")
    yield both(f"{NETWORK}.critic", f"{theirs}.critic_linear")


IRIS = Layout(
    recipe="iris",
    size="paper",
    source="a file of the released implementation of IRIS",
    table=joined([*tokenizer(), *world(), *policy()]),
    ignored=re.compile(r"tokenizer\.lpips\..*|world_model\..*\.(attn\.mask|indices)"),
    zeros=frozenset({"world.tokenizer.usage"}),
    actions="actor_critic.actor_linear.weight",
)
