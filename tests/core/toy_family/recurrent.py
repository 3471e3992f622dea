"""The member that the toy recipe uses."""

from dataclasses import dataclass
from typing import Literal

from tokenworlds.core.config import Component, ConfigOf


class Recurrent(Component):
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Recurrent"]):
        width: int = 8
        layers: int = 1
        decay: float = 0.5
        heads: str = "none"
        gate: Literal["sigmoid", "hard"] = "sigmoid"
        channels: tuple[int, ...] = (4, 8)
        size: tuple[int, int] = (64, 64)
        bias: bool = True
        label: str = ""
        clip: float | None = None

        def __post_init__(self) -> None:
            if self.width % 2:
                raise ValueError(f"width {self.width} is odd")

    def __init__(self, config: Config, *, inputs: int) -> None:
        self.config, self.inputs = config, inputs
