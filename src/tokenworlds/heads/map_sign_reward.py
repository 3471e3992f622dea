"""The sign of a reward, read from a map (Smaller World Models)."""

from dataclasses import dataclass

from einops import pack, unpack
from jaxtyping import Float
from torch import Tensor, nn

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.heads.sign_reward import Sign
from tokenworlds.nets.distributions import Categorical


class MapSignReward(nn.Module, Component):
    """A few channels of each site, then two linear layers over all of them."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["MapSignReward"]):
        """`channels` of each site, `hidden` units of the whole map."""

        channels: int = 32
        hidden: int = 512

    def __init__(self, config: Config, *, shape: tuple[int, int, int]) -> None:
        super().__init__()
        inputs, height, width = shape
        self.network = nn.Sequential(
            nn.Conv2d(inputs, config.channels, 1),
            nn.LayerNorm((config.channels, height, width)),
            nn.LeakyReLU(),
            nn.Flatten(),
            nn.Linear(config.channels * height * width, config.hidden),
            nn.LeakyReLU(),
            nn.Linear(config.hidden, 3),
        )

    def forward(self, feature: Float[Tensor, "*rest C H W"]) -> Sign:
        """Of the action just taken."""
        maps, lead = pack([feature], "* c h w")
        (logits,) = unpack(self.network(maps), lead, "* classes")
        return Sign(Categorical.of(logits))
