"""The tokenizer's share of an update in which a whole world learns together.

STEP-VQ compares what lies behind the autoencoder: dynamics, imagination and behaviour. Where the
tokenizer is a learner of its own its cost is known; elsewhere it is measured as if it were one.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from torch import nn

from tokenworlds.core.protocols import Tokenizer, World
from tokenworlds.core.types import Losses, Part, Segment, once, to_frames
from tokenworlds.runs.recipe import Learning, Recipe
from tokenworlds.training.learner import Learner

TOKENIZER = "tokenizer"
"""The learner that a tokenizer may be, and its name in a world."""
AUTOENCODER = "autoencoder"
TOGETHER = "world"
"""The learner that it is part of otherwise."""


def autoencoder_of(world: World, recipe: Recipe, sample: Segment) -> Learner | None:
    """The tokenizer as a learner, if it is part of another: its losses, gradients and averages."""
    tokenizer: Tokenizer | None = getattr(world, TOKENIZER, None)
    if tokenizer is None or TOKENIZER in recipe.learning:
        return None

    def losses(segment: Segment) -> Losses:
        frames = to_frames(segment.frame)
        return tokenizer.losses(frames, tokenizer.encode(frames), segment.mask)

    learning = only(recipe.learning[TOGETHER], losses(sample).terms)
    return Learner(AUTOENCODER, learning, Part(cast(nn.Module, tokenizer), once(losses)))


def only(learning: Learning, terms: Mapping[str, object]) -> Learning:
    """How some terms of a part are learned; names of parts mean nothing inside of one."""
    optimiser = replace(learning.optimiser, rates={}, epsilons={})
    scales = {name: learning.scales[name] for name in terms}
    return replace(learning, scales=scales, optimiser=optimiser)
