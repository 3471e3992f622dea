"""The files `world_model_{step}.pth` and `agent_{step}.pth` of STORM (Zhang et al., 2023)."""

import re
from collections.abc import Iterator

from torch import Tensor

from tokenworlds.sharing.layouts.layout import Layout, Table, both, joined, plain

CODES = 32 * 32
STEM = "storm_transformer.stem.0.weight"
STEM_CODES, STEM_ACTION = f"{STEM} (codes)", f"{STEM} (action)"
STATISTICS = ("weight", "bias", "running_mean", "running_var")
TOKENIZER, DECODER = "world.tokenizer", "image_decoder.backbone"
NORMS = {
    **{f"{TOKENIZER}.encoder.layers.{n}.norm": f"encoder.backbone.{3 * n + 1}" for n in range(4)},
    f"{TOKENIZER}.norm.0": f"{DECODER}.2",
    **{f"{TOKENIZER}.decoder.layers.{2 * n + 1}.0": f"{DECODER}.{3 * n + 5}" for n in range(3)},
}


def split_stem(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """The first layer in the two parts that we store: columns of codes, then of actions."""
    stem = found.get(STEM)
    if stem is None or stem.ndim != 2:
        return found
    rest = {name: each for name, each in found.items() if name != STEM}
    return rest | {STEM_CODES: stem[:, :CODES].T, STEM_ACTION: stem[:, CODES:]}


def tokenizer() -> Iterator[Table]:
    for number in range(4):
        ours = f"{TOKENIZER}.encoder.layers.{number}.convolution"
        yield plain(ours, f"encoder.backbone.{3 * number}")
        yield plain(f"{TOKENIZER}.decoder.layers.{2 * number}", f"{DECODER}.{3 * number + 4}")
    yield {f"{TOKENIZER}.decoder.layers.6.bias": (f"{DECODER}.13.bias",)}
    yield both(f"{TOKENIZER}.posterior", "dist_head.post_head")
    yield plain(f"{TOKENIZER}.expand", f"{DECODER}.0")
    for ours, theirs in NORMS.items():
        yield {f"{ours}.{name}": (f"{theirs}.{name}",) for name in STATISTICS}


def sequence() -> Iterator[Table]:
    theirs = "storm_transformer"
    yield {"world.mixer.codes": (STEM_CODES,), "world.mixer.action.weight": (STEM_ACTION,)}
    yield both("world.mixer.hidden_norm", f"{theirs}.stem.1")
    yield plain("world.mixer.output", f"{theirs}.stem.3")
    yield both("world.mixer.norm", f"{theirs}.stem.4")
    yield plain("world.sequence.positions", f"{theirs}.position_encoding.pos_emb")
    yield both("world.sequence.norm", f"{theirs}.layer_norm")
    for number in range(2):
        yield from block(f"world.sequence.blocks.{number}", f"{theirs}.layer_stack.{number}")


def block(ours: str, theirs: str) -> Iterator[Table]:
    inputs = (f"{theirs}.slf_attn.{name}" for name in ("w_qs", "w_ks", "w_vs"))
    yield plain(f"{ours}.attention.input", *inputs)
    yield plain(f"{ours}.attention.output", f"{theirs}.slf_attn.fc")
    yield both(f"{ours}.attention_norm", f"{theirs}.slf_attn.layer_norm")
    yield both(f"{ours}.feedforward.0", f"{theirs}.pos_ffn.w_1")
    yield both(f"{ours}.feedforward.2", f"{theirs}.pos_ffn.w_2")
    yield both(f"{ours}.feedforward_norm", f"{theirs}.pos_ffn.layer_norm")


def perceptron(ours: str, theirs: str, output: str) -> Iterator[Table]:
    """Two layers without bias, each with a norm, and an output."""
    for number in (0, 3):
        yield plain(f"{ours}.layers.{number}", f"{theirs}.{number}")
        yield both(f"{ours}.layers.{number + 1}", f"{theirs}.{number + 1}")
    yield both(f"{ours}.output", output)


def heads() -> Iterator[Table]:
    yield both("world.prior.logits", "dist_head.prior_head")
    reward, termination = "reward_decoder", "termination_decoder"
    yield from perceptron("world.reward.network", f"{reward}.backbone", f"{reward}.head")
    ours = "world.termination.network"
    yield from perceptron(ours, f"{termination}.backbone", f"{termination}.head.0")
    for name in ("actor", "critic", "slow_critic"):
        yield from perceptron(f"behaviour.{name}", name, f"{name}.6")


STORM = Layout(
    recipe="storm",
    size="paper",
    source="the world model's and the agent's file of the released implementation of STORM",
    files=2,
    table=joined([*tokenizer(), *sequence(), *heads()]),
    ignored=re.compile(r".*\.num_batches_tracked"),
    zeros=frozenset(
        {"behaviour.return_range.spread", *(f"{name}.num_batches_tracked" for name in NORMS)}
    ),
    actions="actor.6.weight",
    prepare=split_stem,
)
