"""How the sites of a frame lie on a map (Smaller World Models, ablation of the latent's shape)."""

from dataclasses import dataclass
from typing import Literal

from einops import rearrange
from jaxtyping import Float
from torch import Tensor

Layout = Literal["map", "line", "vector"]


@dataclass(frozen=True, slots=True)
class Sites:
    """Sites of a grid, a vector of `width` each: as they lie, row after row, or all in one."""

    grid: tuple[int, int]
    width: int
    layout: Layout = "map"

    @property
    def count(self) -> int:
        """Of them all."""
        return self.grid[0] * self.grid[1]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the map."""
        if self.layout == "vector":
            return (self.count * self.width, 1, 1)
        return (self.width, *(self.grid if self.layout == "map" else (self.count, 1)))

    def arrange(self, vector: Float[Tensor, "*rest K D"]) -> Float[Tensor, "*rest C h w"]:
        """Lay the vectors out."""
        if self.layout == "vector":
            return rearrange(vector, "... k d -> ... (k d) 1 1")
        return rearrange(vector, "... (h w) d -> ... d h w", h=self.shape[1])
