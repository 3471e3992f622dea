"""No model at all: a world for behaviours that learn from real steps alone."""

from dataclasses import dataclass
from typing import NoReturn

from jaxtyping import Bool, Float, UInt8
from torch import Generator, Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import Dreamless, UserError
from tokenworlds.core.types import ActionSpace, FrameShape, Part, Segment, to_frames
from tokenworlds.worlds.stacking import FrameStack, stacked


@dataclass(frozen=True, slots=True)
class RealView:
    """The newest frames as one, and the very newest."""

    feature: Float[Tensor, "B C H W"]
    frame: Float[Tensor, "B c H W"]


class Real(nn.Module, Component):
    """Shows the newest frames of an episode; nothing is learned, nothing can be dreamt."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Real"]):
        """Choices: how many `frames` are shown together."""

        frames: int = 4

    def __init__(
        self, config: Config, *, frame_shape: FrameShape, action_space: ActionSpace
    ) -> None:
        super().__init__()
        if config.frames < 1:
            raise UserError(f"world.frames takes 1 or more, not {config.frames}")
        self.config = config
        channels = config.frames * frame_shape.channels
        self.feature_shape: tuple[int, ...] = (channels, frame_shape.height, frame_shape.width)

    def parts(self) -> dict[str, Part]:
        """Nothing learns."""
        return {}

    def describe(self, segment: Segment) -> tuple[Float[Tensor, "B T C H W"], Bool[Tensor, "B T"]]:
        """The feature of every step, and whether it is known to be the one that was seen."""
        return stacked(segment, self.config.frames)

    def seen(self, segment: Segment) -> Float[Tensor, "B T C H W"]:
        """The frames themselves."""
        return to_frames(segment.frame)

    def recode(self, segment: Segment) -> None:
        """There are no codes to show."""

    def observe(
        self,
        frame: UInt8[Tensor, "B H W C"],
        action: Tensor,
        reset: Bool[Tensor, " B"],
        carry: FrameStack | None,
        generator: Generator | None = None,
    ) -> FrameStack:
        """Look at the frame."""
        if carry is None:
            return FrameStack.of(frame, self.config.frames)
        return carry.push(frame, reset)

    def view(self, carry: FrameStack) -> RealView:
        """All frames in the stack, and its last."""
        return RealView(carry.channels(), to_frames(carry.frame[:, -1]))

    def start(self, segment: Segment, steps: int) -> NoReturn:
        """Raises: there is no model to dream with."""
        raise Dreamless(REFUSAL)

    def step(
        self, carry: FrameStack, action: Tensor, generator: Generator | None = None
    ) -> NoReturn:
        """Raises: there is no model to dream with."""
        raise Dreamless(REFUSAL)


REFUSAL = "the world 'real' has no model to dream with: only behaviour.experience=real learns in it"
