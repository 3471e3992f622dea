"""No model: a world for behaviours that learn from real steps alone."""

from dataclasses import dataclass
from typing import NoReturn

from jaxtyping import Bool, Float
from torch import Generator, Tensor

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import NoModel, UserError
from tokenworlds.core.types import ActionSpace, FrameShape, Segment, Trainable, View, to_frames
from tokenworlds.worlds.history import FrameWorld, History, stack_frames, stack_segment

NO_MODEL = "the world 'real' has no model to dream with: it takes behaviour.experience=real"


class Real(FrameWorld, Component):
    """Its feature is a stack of the latest frames. It learns nothing and cannot dream."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Real"]):
        frames: int = 4

    def __init__(
        self, config: Config, *, frame_shape: FrameShape, action_space: ActionSpace
    ) -> None:
        super().__init__()
        if config.frames < 1:
            raise UserError(f"world.frames takes 1 or more, not {config.frames}")
        self.frames = self.kept = config.frames
        self.action_space = action_space
        channels = config.frames * frame_shape.channels
        self.feature_shape: tuple[int, ...] = (channels, frame_shape.height, frame_shape.width)

    def trainables(self) -> dict[str, Trainable]:
        return {}

    def features(self, segment: Segment) -> tuple[Float[Tensor, "B T C H W"], Bool[Tensor, "B T"]]:
        """The frame stack of every step, and whether it is the one that the policy saw."""
        return stack_segment(segment, self.frames)

    def policy_frames(self, segment: Segment) -> Float[Tensor, "B T C H W"]:
        return to_frames(segment.frame)

    def reconstruct(self, segment: Segment) -> None:
        """There are no tokens."""

    def view(self, carry: History) -> View:
        def stack() -> Float[Tensor, "B C H W"]:
            return stack_frames(carry.observation, carry.starts, self.frames)[:, -1]

        return View(stack, lambda: carry.frame)

    def start(self, segment: Segment, steps: int) -> NoReturn:
        raise NoModel(NO_MODEL)

    def step(self, carry: History, action: Tensor, generator: Generator | None = None) -> NoReturn:
        raise NoModel(NO_MODEL)
