"""A recipe tried out on blank frames, so that what cannot work is told before a run begins."""

import contextlib
from collections.abc import Iterator

import torch

from tokenworlds.core.errors import UserError
from tokenworlds.core.seeding import global_states, restore_global_states
from tokenworlds.core.types import FrameShape, Segment
from tokenworlds.evaluation.player import Player
from tokenworlds.training.recipe import Recipe

MISFITS = (ValueError, TypeError, RuntimeError, ArithmeticError, LookupError, AssertionError)
"""What networks raise when the numbers they are made from do not fit together."""


@contextlib.contextmanager
def telling_what_does_not_fit() -> Iterator[None]:
    """Turns the complaint of some layer into a sentence about the recipe."""
    try:
        yield
    except MISFITS as error:
        said = str(error.args[0]) if error.args else type(error).__name__
        reason = " ".join(said.split())
        raise UserError(f"the recipe does not fit together: {reason}") from error


def rehearse(player: Player, recipe: Recipe, frame_shape: FrameShape) -> None:
    """Compute every loss once; changes neither weights nor generators."""
    before = global_states(player.device)
    segment = blank_segment(player, frame_shape)
    start = player.world.start(segment, player.behaviour.horizon)
    generator = torch.Generator(player.device).manual_seed(0)
    with torch.no_grad():
        player.world.losses(segment).total(recipe.learning["world"].scales)
        dreamt = player.behaviour.losses(player.world, start, generator)
        dreamt.total(recipe.learning["behaviour"].scales)
    restore_global_states(before, player.device)


def blank_segment(player: Player, shape: FrameShape) -> Segment:
    """Two steps of one stream in which nothing is seen and nothing happens."""
    two, device = (1, 2), player.device
    nothing = torch.zeros(two, dtype=torch.bool, device=device)
    return Segment(
        frame=torch.zeros(
            (*two, shape.height, shape.width, shape.channels), dtype=torch.uint8, device=device
        ),
        first=nothing,
        action=player.action_space.zeros(*two, device=device),
        reward=torch.zeros(two, device=device),
        ending=nothing,
        cutoff=nothing,
        mask=~nothing,
    )
