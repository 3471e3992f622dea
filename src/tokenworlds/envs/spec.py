"""Which environment a run plays, as it is written into the run's folder."""

from dataclasses import dataclass

from tokenworlds.core.protocols import Env
from tokenworlds.envs.catalogue import canonical, checked_protocol, default_protocol, make


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """An environment by its full name, with the protocol its scores are stored under.

    Any accepted name may be given; no protocol means the family's default. Both are made whole
    here, so that what is stored does not depend on how it was asked for.
    """

    name: str
    protocol: str = ""
    size: int = 64
    grey: bool = False

    def __post_init__(self) -> None:
        protocol = checked_protocol(self.name, self.protocol or default_protocol(self.name))
        object.__setattr__(self, "name", canonical(self.name))
        object.__setattr__(self, "protocol", protocol)

    def make(self, *, evaluation: bool = False) -> Env:
        """The environment itself."""
        return make(
            self.name,
            size=self.size,
            grey=self.grey,
            protocol=self.protocol,
            evaluation=evaluation,
        )
