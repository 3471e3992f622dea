"""The files `world_model.pth` and `agent.pth` of DRAMA (Wang et al., 2025)."""

import re
from collections.abc import Iterator

from torch import Tensor

from tokenworlds.sharing.layouts.layout import Layout, Table, both, joined, plain

CODES, INNER, STATE = 32 * 32, 1024, 16
COMPILED = "_orig_mod."
BACKBONE = "sequence_model.backbone"
STEM = f"{BACKBONE}.stem.0.weight"
STEM_CODES, STEM_ACTION = f"{STEM} (codes)", f"{STEM} (action)"
STATISTICS = ("weight", "bias", "running_mean", "running_var")
TOKENIZER, DECODER = "world.tokenizer", "image_decoder.backbone"
NORMS = {
    **{f"{TOKENIZER}.encoder.layers.{n}.norm": f"encoder.backbone.{3 * n + 1}" for n in range(5)},
    f"{TOKENIZER}.norm.0": f"{DECODER}.2",
    **{f"{TOKENIZER}.decoder.layers.{2 * n + 1}.0": f"{DECODER}.{3 * n + 5}" for n in range(4)},
}
LAYERS = [f"{BACKBONE}.layers.{number}.mixer" for number in range(2)]
PARTS = ("gate", "input", "delta")


def divide(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names without the prefix of compiled modules; joint matrices in the parts that we store."""
    found = {name.removeprefix(COMPILED): each for name, each in found.items()}
    stem = found.get(STEM)
    if stem is not None and stem.ndim == 2:
        del found[STEM]
        found |= {STEM_CODES: stem[:, :CODES].T, STEM_ACTION: stem[:, CODES:]}
    for layer in LAYERS:
        joint, kernel = found.get(f"{layer}.in_proj.weight"), found.get(f"{layer}.conv1d.weight")
        if joint is not None and len(joint) > 2 * INNER + 2 * STATE:
            del found[f"{layer}.in_proj.weight"]
            ends = (INNER, 2 * INNER + 2 * STATE)
            parts = joint.tensor_split(ends)
            found |= {f"{layer}.{name}": each for name, each in zip(PARTS, parts, strict=True)}
        if kernel is not None and kernel.ndim == 3:
            found[f"{layer}.conv1d.weight"] = kernel.squeeze(1).T
    return found


def tokenizer() -> Iterator[Table]:
    for number in range(5):
        ours = f"{TOKENIZER}.encoder.layers.{number}.convolution"
        yield both(ours, f"encoder.backbone.{3 * number}")
        yield both(f"{TOKENIZER}.decoder.layers.{2 * number}", f"{DECODER}.{3 * number + 4}")
    yield both(f"{TOKENIZER}.posterior", "dist_head.post_head")
    yield both(f"{TOKENIZER}.expand", f"{DECODER}.0")
    for ours, theirs in NORMS.items():
        yield {f"{ours}.{name}": (f"{theirs}.{name}",) for name in STATISTICS}


def sequence() -> Iterator[Table]:
    yield {
        "world.mixer.codes": (STEM_CODES,),
        "world.mixer.action.weight": (STEM_ACTION,),
        "world.mixer.action.bias": (f"{BACKBONE}.stem.0.bias",),
        "world.mixer.norm.weight": (f"{BACKBONE}.stem.1.scale",),
    }
    yield plain("world.sequence.norm", f"{BACKBONE}.norm_f")
    for number, theirs in enumerate(LAYERS):
        block = f"world.sequence.blocks.{number}"
        ours = f"{block}.layer"
        yield plain(f"{block}.norm", f"{BACKBONE}.layers.{number}.norm")
        yield both(f"{ours}.convolution", f"{theirs}.conv1d")
        yield plain(f"{ours}.norm", f"{theirs}.norm")
        yield plain(f"{ours}.output", f"{theirs}.out_proj")
        yield {f"{ours}.{part}.weight": (f"{theirs}.{part}",) for part in PARTS}
        yield {
            f"{ours}.delta_bias": (f"{theirs}.dt_bias",),
            f"{ours}.log_rate": (f"{theirs}.A_log",),
            f"{ours}.skip": (f"{theirs}.D",),
        }


def perceptron(ours: str, theirs: str, first: int, count: int, output: str) -> Iterator[Table]:
    """Layers with a bias and a scaled norm, and an output."""
    for number in range(0, 3 * count, 3):
        yield both(f"{ours}.layers.{number}", f"{theirs}.{first + number}")
        yield {f"{ours}.layers.{number + 1}.weight": (f"{theirs}.{first + number + 1}.scale",)}
    yield both(f"{ours}.output", output)


def heads() -> Iterator[Table]:
    yield both("world.prior.logits", "dist_head.prior_head")
    for name in ("reward", "termination"):
        theirs = f"{name}_decoder"
        yield from perceptron(f"world.{name}.network", f"{theirs}.backbone", 0, 1, f"{theirs}.head")
    for name, first in (("actor", 1), ("critic", 0), ("slow_critic", 0)):
        yield from perceptron(f"behaviour.{name}", name, first, 3, f"{name}.{first + 9}")


DRAMA = Layout(
    recipe="drama",
    size="paper",
    source="the world model's and the agent's file of the released implementation of DRAMA",
    files=2,
    table=joined([*tokenizer(), *sequence(), *heads()]),
    ignored=re.compile(r".*\.num_batches_tracked"),
    zeros=frozenset(
        {"behaviour.return_range.spread", *(f"{name}.num_batches_tracked" for name in NORMS)}
    ),
    actions="actor.10.weight",
    prepare=divide,
    fresh="behaviour.actor.",
    note="the policy begins anew: DRAMA normalises its inputs by statistics that no file holds",
)
